'use strict';
// The page of `whisker study graph`. Text is always set as text, never as HTML: names of layers are
// foreign. Sections: elements, the step, folding, layout, tensors, the graph, the frame, controls.

const data = JSON.parse(document.getElementById('data').textContent);
const entries = data.entries;

// ---- elements

const byId = id => document.getElementById(id);
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const html = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

// ---- the step

const plural = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;
const label = i => entries[i].kind === 'op' ? `${entries[i].number} ${entries[i].name}` : entries[i].name;
const shapeText = output => `(${output.shape.join(',')})`;
const bytesText = bytes => {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let unit = 0;
  for (; bytes >= 1024 && unit < 3; ++unit) bytes /= 1024;
  return `${unit ? bytes.toFixed(1) : bytes} ${units[unit]}`;
};
// Four digits, as `study step` prints them.
function number(value) {
  if (typeof value === 'string') return value;  // nan, inf
  const text = value.toPrecision(4);
  return /e/.test(text) || Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-4)
    ? value.toExponential(3).replace(/\.?0+e/, 'e') : String(Number(text));
}

const operators = entries.map((_, i) => i).filter(i => entries[i].kind === 'op');
const frames = [
  ...operators.map(entry => ({entry, backward: false})),
  ...entries.map((_, i) => i).filter(i => entries[i].step > 0)
    .sort((a, b) => entries[a].step - entries[b].step).map(entry => ({entry, backward: true}))];
const lossFrame = Math.max(0, operators.length - 1);
const frameOf = {false: new Map(), true: new Map()};  // entry -> its frame forward or backward
const arrivals = entries.map(() => []);  // what the gradient of an entry's first output was, by frame
let kept = 0;
frames.forEach((frame, f) => {
  const entry = entries[frame.entry];
  frameOf[frame.backward].set(frame.entry, f);
  kept += (frame.backward ? -1 : 1) * entry.bytes;
  frame.kept = kept;
  if (!frame.backward) return;
  for (const given of entry.given) {
    const input = entry.inputs[given.input];
    if (input.output === 0) arrivals[input.entry].push({frame: f, sum: given.sum});
  }
});
function heading(f) {
  const {entry: i, backward} = frames[f], entry = entries[i];
  const what = entry.kind === 'leaf' ? `accumulate ${entry.name}` : label(i);
  return (backward ? `backward ${entry.step}: ` : 'forward: ') + what +
    (entry.parts ? ` (${entry.parts})` : '') + (entry.layer ? `, layer ${entry.layer}` : '') +
    (entry.attributes ? `; ${entry.attributes}` : '');
}
const users = entries.map(() => []);
entries.forEach((entry, i) => { for (const input of entry.inputs) users[input.entry].push(i); });

// ---- folding: a module is a run of operators, one after the other, whose layers begin alike. As
// operators stand in topological order, what is folded never makes a cycle.

function modules(list, depth, parent) {
  const items = [];
  for (let begin = 0; begin < list.length;) {
    const names = i => entries[i].layer ? entries[i].layer.split('.') : [];
    const path = names(list[begin]).slice(0, depth + 1).join('.');
    let end = begin + 1;
    const inside = i => path && names(i).length > depth && names(i).slice(0, depth + 1).join('.') === path;
    while (end < list.length && inside(list[begin]) && inside(list[end])) ++end;
    const run = list.slice(begin, end);
    if (run.length === 1 || names(run[0]).length <= depth) {
      items.push(...run.map(op => ({op, parent})));
    } else {
      const group = {path, parent, ops: run, open: false, depth};
      group.items = modules(run, depth + 1, group);
      const only = group.items[0];
      items.push(group.items.length === 1 && only.items ? Object.assign(only, {parent}) : group);
    }
    begin = end;
  }
  return items;
}
const top_ = modules(operators, 0, null);
function eachGroup(visit, items = top_) {
  for (const item of items) if (item.items) { visit(item); eachGroup(visit, item.items); }
}
const visible = (items = top_) => items.flatMap(item => item.items && item.open ? visible(item.items) : [item]);
// Opens level by level, as long as the whole stays readable.
for (let level = 0; ; ++level) {
  const closed = visible().filter(item => item.items);
  closed.forEach(item => { item.open = true; });
  if (closed.length === 0) break;
  if (visible().length > 40) { closed.forEach(item => { item.open = false; }); break; }
}

// ---- layout: rows by longest path, order by barycenters, columns by medians (Sugiyama, Tagawa and
// Toda 1981), as core/trace/graph_layout.cpp

function place(boxes, edges, gap) {
  const slots = boxes.map(box => ({box, row: 0, width: box.width, x: 0, above: [], below: []}));
  for (const edge of edges) slots[edge.to].row = Math.max(slots[edge.to].row, slots[edge.from].row + 1);
  boxes.forEach((box, i) => {  // sources sink to what uses them
    const uses = edges.filter(edge => edge.from === i);
    if (uses.length && !edges.some(edge => edge.to === i)) {
      slots[i].row = Math.min(...uses.map(edge => slots[edge.to].row)) - 1;
    }
  });
  const chains = edges.map(edge => {
    const chain = [edge.from];
    for (let row = slots[edge.from].row + 1; row < slots[edge.to].row; ++row) {
      chain.push(slots.length);
      slots.push({row, width: 2, x: 0, above: [], below: []});
    }
    chain.push(edge.to);
    for (let i = 1; i < chain.length; ++i) {
      slots[chain[i - 1]].below.push(slots[chain[i]]);
      slots[chain[i]].above.push(slots[chain[i - 1]]);
    }
    return chain;
  });
  const rows = [];
  for (const slot of slots) (rows[slot.row] ??= []).push(slot);
  const number_ = () => rows.forEach(row => row.forEach((slot, i) => { slot.at = i; }));
  const crossings = () => {
    number_();
    let count = 0;
    for (const row of rows) {
      const ends = [];
      for (const slot of row) {
        for (const other of slot.below) count += ends.filter(end => end > other.at).length;
        ends.push(...slot.below.map(other => other.at));
      }
    }
    return count;
  };
  let best = rows.map(row => [...row]), fewest = crossings();
  for (let sweep = 0; sweep < 8 && fewest > 0; ++sweep) {
    for (const side of ['above', 'below']) {
      const order = side === 'above' ? rows : [...rows].reverse();
      for (const row of order) {
        number_();
        for (const slot of row) {
          const near = slot[side];
          slot.key = near.length ? near.reduce((sum, other) => sum + other.at, 0) / near.length : slot.at;
        }
        row.sort((a, b) => a.key - b.key);
      }
    }
    const now = crossings();
    if (now < fewest) { fewest = now; best = rows.map(row => [...row]); }
  }
  // Centres as near to `wish` as order and distances allow: pooling adjacent violators. Parameters,
  // which have nothing above, follow their operator and hardly pull it.
  const weight = slot => slot.above.length ? 1 : 0.02;
  const settle = (row, wish) => {
    const pools = [], offset = [];
    row.forEach((slot, i) => {
      offset[i] = i === 0 ? 0 : offset[i - 1] + (row[i - 1].width + slot.width) / 2 + gap.column;
      pools.push({sum: weight(slot) * (wish(slot) - offset[i]), weight: weight(slot), size: 1});
      const value = pool => pool.sum / pool.weight;
      for (let n = pools.length; n > 1 && value(pools[n - 2]) > value(pools[n - 1]); --n) {
        const last = pools.pop();
        for (const key of ['sum', 'weight', 'size']) pools[n - 2][key] += last[key];
      }
    });
    let i = 0;
    for (const pool of pools) {
      for (let k = 0; k < pool.size; ++k, ++i) row[i].x = pool.sum / pool.weight + offset[i];
    }
  };
  for (const row of best) settle(row, () => 0);
  const pull = side => slot => {
    const firm = slot[side].filter(other => side === 'below' || other.above.length);
    const xs = (firm.length ? firm : slot[side]).map(other => other.x).sort((a, b) => a - b), half = xs.length >> 1;
    return xs.length === 0 ? slot.x : xs.length % 2 ? xs[half] : (xs[half - 1] + xs[half]) / 2;
  };
  for (let sweep = 0; sweep < 12; ++sweep) {
    for (const row of best) settle(row, pull('above'));
    for (const row of [...best].reverse()) settle(row, pull('below'));
  }
  const left = Math.min(...slots.map(slot => slot.x - slot.width / 2));
  let y = 0;
  for (const row of best) {
    const height = Math.max(...row.map(slot => slot.box ? slot.box.height : 0));
    for (const slot of row) {
      slot.x -= left;
      Object.assign(slot, {top: y, bottom: y + height});
      if (slot.box) Object.assign(slot.box, {x: slot.x - slot.box.width / 2, y: y + (height - slot.box.height) / 2});
    }
    y += height + gap.row;
  }
  edges.forEach((edge, e) => {
    const from = boxes[edge.from], to = boxes[edge.to];
    edge.points = [[from.x + from.width / 2, from.y + from.height]];
    for (const slot of chains[e].slice(1, -1)) {
      edge.points.push([slots[slot].x, slots[slot].top], [slots[slot].x, slots[slot].bottom]);
    }
    edge.points.push([to.x + to.width / 2, to.y]);
  });
  return {width: Math.max(...slots.map(slot => slot.x + slot.width / 2)), height: y - gap.row};
}

// ---- tensors

const statisticsOf = values => {
  const finite = values.filter(value => typeof value === 'number');
  const sum = finite.reduce((a, b) => a + b, 0), squares = finite.reduce((a, b) => a + b * b, 0);
  return {norm: Math.sqrt(squares), mean: sum / finite.length,
          minimum: Math.min(...finite), maximum: Math.max(...finite),
          zeros: finite.filter(value => value === 0).length, not_finite: values.length - finite.length};
};
const oddText = s => (s.zeros ? `, ${plural(s.zeros, 'zero')}` : '') + (s.not_finite ? `, ${s.not_finite} not finite` : '');
const normOf = tensor => Array.isArray(tensor) ? statisticsOf(tensor).norm : tensor.norm;

// The last axis goes to the right. Of three axes a matrix for each index of the first; of four, of
// images and kernels, one of height and width for each example and channel.
function matrices(shape, values) {
  if (shape.length <= 2) {
    // A long vector goes on below.
    const columns = shape.length === 1 ? Math.min(values.length, 32) : shape[1] ?? 1;
    return [{name: '', rows: Math.ceil(values.length / columns), columns, at: (r, c) => r * columns + c}];
  }
  const tiles = [];
  if (shape.length === 4) {
    const [n, h, w, c] = shape;
    for (let i = 0; i < n; ++i) {
      for (let k = 0; k < c; ++k) {
        tiles.push({name: `[${i},:,:,${k}]`, rows: h, columns: w, at: (y, x) => ((i * h + y) * w + x) * c + k});
      }
    }
    return tiles;
  }
  const columns = shape[shape.length - 1], rows = shape[shape.length - 2];
  for (let i = 0; i * rows * columns < values.length; ++i) {
    tiles.push({name: `[${i},:,:]`, rows, columns, at: (r, c) => (i * rows + r) * columns + c});
  }
  return tiles;
}

function cell(value, largest, x, y, width, height) {
  const finite = typeof value === 'number';
  const strength = finite ? (largest > 0 ? Math.abs(value) / largest : 0) : 1;
  return svg('rect', {class: !finite ? 'odd' : value < 0 ? 'negative' : 'positive', x, y, width, height,
                      'fill-opacity': finite ? (0.9 * strength).toFixed(3) : 1});
}
const largestOf = values => values.reduce((most, value) => typeof value === 'number' ? Math.max(most, Math.abs(value)) : most, 0);

const numbersUpTo = 256, tilesUpTo = 64;
function heatMap(shape, values, all) {
  const largest = largestOf(values), tiles = matrices(shape, values);
  const written = all || (values.length <= numbersUpTo && tiles.every(tile => tile.columns <= 12));
  const shown = tiles.slice(0, all ? tiles.length : tilesUpTo);
  const texts = written ? values.map(value => all ? String(value) : number(value)) : [];
  const width = written ? 12 + 6.7 * Math.max(...texts.map(text => text.length))
    : Math.max(4, Math.min(values.length > 1024 ? 6 : 10, 400 / tiles[0].columns));
  const height = written ? 19 : width;
  const box = html('div', {class: 'tiles'});
  for (const tile of shown) {
    const w = tile.columns * width, h = tile.rows * height;
    const image = svg('svg', {class: 'heat', width: w + 1, height: h + 1, viewBox: `0 0 ${w + 1} ${h + 1}`});
    for (let r = 0; r < tile.rows; ++r) {
      for (let c = 0; c < tile.columns; ++c) {
        const i = tile.at(r, c);
        if (i >= values.length) continue;
        const x = c * width + 0.5, y = r * height + 0.5;
        const rect = cell(values[i], largest, x, y, width, height);
        image.append(rect);
        if (written) {
          const strong = Number(rect.getAttribute('fill-opacity')) > 0.6;
          image.append(svg('text', {class: strong ? 'strong' : '', x: x + width / 2, y: y + 13.5}, texts[i]));
        }
      }
    }
    box.append(html('figure', {}, image, ...(tile.name ? [html('figcaption', {}, tile.name)] : [])));
  }
  if (shown.length < tiles.length) {
    box.append(html('p', {class: 'note'}, `${tiles.length - shown.length} more; v shows all`));
  }
  return box;
}

function histogram(tensor) {
  const most = Math.max(1, ...tensor.histogram), width = 320, height = 70;
  const image = svg('svg', {class: 'bars', width, height: height + 16, viewBox: `0 0 ${width} ${height + 16}`});
  tensor.histogram.forEach((count, i) => {
    const h = count === 0 ? 0 : Math.max(1, height * count / most), w = width / tensor.histogram.length;
    image.append(svg('rect', {x: i * w, y: height - h, width: w - 1, height: h},
                     svg('title', {}, `${count} values`)));
  });
  image.append(svg('text', {class: 'start', x: 0, y: height + 13}, number(tensor.minimum)),
               svg('text', {class: 'end', x: width, y: height + 13}, number(tensor.maximum)));
  return image;
}

function tensorView(name, output, tensor, note = '') {
  const view = html('div', {class: 'tensor'},
    html('p', {}, html('b', {}, name), ` ${shapeText(output)} ${output.dtype}`, note ? html('i', {}, ` ${note}`) : ''));
  if (tensor === undefined) {
    view.append(html('p', {class: 'note'}, 'not recorded'));
  } else if (Array.isArray(tensor)) {
    const s = statisticsOf(tensor);
    view.append(heatMap(output.shape, tensor, byId('all').checked));
    if (tensor.length > 8) {
      view.append(html('p', {class: 'note'}, `norm ${number(s.norm)}, ${number(s.minimum)} to ${number(s.maximum)}${oddText(s)}`));
    }
  } else {
    view.append(histogram(tensor), html('p', {class: 'note'},
      `norm ${number(tensor.norm)}, mean ${number(tensor.mean)}, deviation ${number(tensor.deviation)}${oddText(tensor)}`));
  }
  return view;
}

// ---- the graph

const small = operators.length <= 30 && entries.length <= 70;
byId('leaves').checked = small;
let current = 0, zoom = 1, drawn = null;

const charWidth = 7.3;
const miniColumns = 10, miniRows = 5, miniCell = 9;
// Where a tensor's values stand within its box, while they are few.
function mini(output) {
  const count = output.shape.reduce((a, b) => a * b, 1);
  const columns = output.shape.length ? output.shape[output.shape.length - 1] : 1;
  const known = Array.isArray(output.value) || Array.isArray(output.gradient);
  return known && count > 0 && columns <= miniColumns && count / columns <= miniRows
    ? {columns, rows: count / columns, width: columns * miniCell, height: count / columns * miniCell} : null;
}

function boxOf(item) {
  const node = {item, entries: item.items ? item.ops : [item.op]};
  const last = entries[node.entries[node.entries.length - 1]];
  node.shape = shapeText(last.outputs[0]);
  if (item.items) {
    node.lines = [`▸ ${item.path}`, plural(item.ops.length, 'operator'), node.shape];
    node.family = 'module';
  } else {
    node.lines = last.kind !== 'op' ? [last.name.split('.').pop()]
      : [label(item.op), ...(last.layer && last.layer !== last.name ? [last.layer] : [])];
    node.lines.push(node.shape);
    node.family = last.family;
    node.mini = mini(last.outputs[0]);
  }
  node.norm = last.outputs[0].value !== undefined || last.outputs[0].gradient !== undefined;
  node.width = Math.max(82, ...node.lines.map(line => [...line].length * charWidth + 22), node.mini ? node.mini.width + 22 : 0);
  node.height = 14 + 15 * (node.lines.length + node.norm) + (node.mini ? node.mini.height + 4 : 0);
  return node;
}

function curve(points) {
  let d = `M${points[0]}`;
  for (let i = 1; i < points.length; ++i) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i], bend = (y1 - y0) / 2;
    d += x0 === x1 ? ` L${x1},${y1}` : ` C${x0},${y0 + bend} ${x1},${y1 - bend} ${x1},${y1}`;
  }
  return d;
}

function drawGraph() {
  const items = visible();
  if (byId('leaves').checked) {
    const drawnOperators = new Set(items.map(item => item.op));  // not what a folded module has inside
    entries.forEach((entry, i) => {
      if (entry.kind !== 'op' && users[i].some(user => drawnOperators.has(user))) items.push({op: i, parent: null});
    });
  }
  const order = item => item.items ? item.ops[0] : item.op;
  items.sort((a, b) => order(a) - order(b));
  const nodes = items.map(boxOf), nodeOf = new Map();
  nodes.forEach((node, n) => node.entries.forEach(i => nodeOf.set(i, n)));
  const edges = [], seen = new Set();
  nodes.forEach((node, to) => {
    for (const i of node.entries) {
      for (const input of entries[i].inputs) {
        const from = nodeOf.get(input.entry);
        if (from === undefined || from === to) continue;
        const key = `${from} ${to}`;
        if (!seen.has(key)) edges.push({from, to, wants: input.wants, key});
        else if (input.wants) edges.find(edge => edge.key === key).wants = true;
        seen.add(key);
      }
    }
  });
  const nesting = Math.max(0, ...top_.filter(item => item.items && item.open).map(item => 1 + openBelow(item)));
  const size = place(nodes, edges, {row: 24 + captionHeight * nesting, column: 24 + 8 * nesting});
  const margin = 20 + captionHeight * nesting, gap = 70, head = 34;
  const width = 2 * (size.width + 2 * margin) + gap, height = size.height + head + 2 * margin;
  const shift = {false: margin, true: size.width + 3 * margin + gap};
  const link = svg('path', {class: 'link'});
  const image = svg('svg', {class: 'drawing', width, height, viewBox: `0 0 ${width} ${height}`, role: 'group'},
    svg('defs', {}, svg('marker', {id: 'head', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto'},
      svg('path', {class: 'head', d: 'M0,0.6 L8,4 L0,7.4 L1.8,4 Z'}))), link);
  const sides = {};
  for (const backward of [false, true]) {
    const side = svg('g', {transform: `translate(${shift[backward]},${head + margin})`});
    side.append(svg('text', {class: 'side', x: size.width / 2, y: -margin - 4}, backward ? 'backward ↑' : 'forward ↓'));
    for (const box of moduleFrames(nodes)) side.append(box);
    for (const edge of edges) {
      if (backward && !edge.wants) continue;
      const points = edge.points.map(([x, y]) => [+x.toFixed(1), +y.toFixed(1)]);
      side.append(svg('path', {class: 'edge', 'marker-end': 'url(#head)', d: curve(backward ? points.reverse() : points)}));
    }
    sides[backward] = nodes.map(node => {
      const visited = node.entries.some(i => frameOf[backward].has(i) || (!backward && entries[i].kind !== 'op'));
      if (!visited) return null;
      const group = nodeView(node, backward);
      side.append(group.element);
      return group;
    });
    image.append(side);
  }
  byId('graph').replaceChildren(image);
  drawn = {image, nodes, nodeOf, sides, shift, width, height, link, top: head + margin};
  showFrame();
}

const captionHeight = 13;
const openBelow = group => Math.max(0, ...group.items.filter(item => item.items && item.open).map(item => 1 + openBelow(item)));
// Rectangles around what unfolded modules have on this graph; their name folds them.
function moduleFrames(nodes) {
  const boxes = [];
  eachGroup(group => {
    let above = group;
    while (above && above.open) above = above.parent;
    if (above) return;
    const inside = nodes.filter(node => node.entries.every(i => group.ops.includes(i)));
    const below = openBelow(group), pad = 7 + 5 * below;
    const x = Math.min(...inside.map(node => node.x)) - pad, y = Math.min(...inside.map(node => node.y)) - 4 - captionHeight * (below + 1);
    const right = Math.max(...inside.map(node => node.x + node.width)) + pad;
    const bottom = Math.max(...inside.map(node => node.y + node.height)) + pad - 2;
    const name = svg('text', {class: 'start', x: x + 6, y: y + 10}, `▾ ${group.path.split('.').pop()}`);
    const element = svg('g', {class: 'frame', tabindex: 0, role: 'button', 'aria-label': `fold ${group.path}`},
      svg('rect', {x, y, width: right - x, height: bottom - y, rx: 8}), name);
    element.dataset.fold = group.path;
    activate(element, () => setOpen(group, false));
    boxes.push(element);
  });
  return boxes;
}

function activate(element, action) {
  element.addEventListener('click', action);
  element.addEventListener('keydown', event => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    event.stopPropagation();
    action();
  });
}

function setOpen(group, open) {
  group.open = open;
  drawGraph();
}

function nodeView(node, backward) {
  const element = svg('g', {class: 'node', tabindex: 0, role: 'button', transform: `translate(${node.x.toFixed(1)},${node.y.toFixed(1)})`});
  const radius = node.family === 'leaf' ? 12 : node.family === 'constant' ? 0 : 6;
  element.append(svg('title', {}, node.item.items ? node.item.path : label(node.item.op)));
  element.append(svg('rect', {class: node.family, width: node.width.toFixed(1), height: node.height, rx: radius}));
  let y = 18;
  node.lines.forEach((line, i) => {
    const style = i === 0 ? (node.family === 'leaf' || node.family === 'constant' ? '' : 'op') : i === node.lines.length - 1 ? 'shape' : 'quiet';
    element.append(svg('text', {class: style, x: node.width / 2, y}, line));
    y += 15;
  });
  const norm = node.norm ? svg('text', {class: backward ? 'grad' : 'quiet', x: node.width / 2, y}) : null;
  if (norm) element.append(norm);
  const values = svg('g', {transform: `translate(${node.mini ? (node.width - node.mini.width) / 2 : 0},${y - (norm ? 0 : 10) - 6 + (norm ? 10 : 0)})`});
  element.append(values);
  const frame = node.entries.map(i => frameOf[backward].get(i)).filter(f => f !== undefined);
  element.setAttribute('aria-label', node.lines.join(' ') + (backward ? ', backward' : ''));
  element.dataset.node = node.item.items ? node.item.path : label(node.item.op);
  activate(element, () => {
    if (node.item.items) return setOpen(node.item, true);
    const user = users[node.item.op].find(i => frameOf[backward].has(i));
    goTo(frame.length ? frame[0] : frameOf[backward].get(user) ?? current);
  });
  return {element, norm, values, first: Math.min(...frame, Infinity)};
}

// ---- the frame

// What a node shows at the current frame: its value or gradient so far.
function updateNode(node, view, backward, now) {
  const entry = entries[node.entries[node.entries.length - 1]];
  const started = view.first <= current || (!backward && entry.kind !== 'op');
  let tensor = started ? (backward ? entry.outputs[0].gradient : entry.outputs[0].value) : undefined;
  if (backward && !node.item.items && !(view.first <= current)) {
    const arrived = arrivals[node.entries[0]].filter(arrival => arrival.frame <= current);
    if (arrived.length) tensor = arrived[arrived.length - 1].sum;
  }
  view.element.classList.toggle('waiting', tensor === undefined && !started);
  view.element.classList.toggle('now', now);
  if (view.norm) view.norm.textContent = tensor === undefined ? '' : `‖${backward ? '∇' : 'y'}‖ ${number(normOf(tensor))}`;
  if (!node.mini) return;
  view.values.replaceChildren();
  if (!Array.isArray(tensor)) return;
  const largest = largestOf(tensor);
  tensor.forEach((value, i) => view.values.append(
    cell(value, largest, (i % node.mini.columns) * miniCell, Math.floor(i / node.mini.columns) * miniCell, miniCell, miniCell)));
}

function showFrame() {
  byId('slider').value = current;
  byId('place').textContent = `${current + 1} / ${frames.length}`;
  const {entry: i, backward} = frames[current];
  const n = drawn.nodeOf.get(i) ?? drawn.nodeOf.get(users[i][0]);  // a hidden parameter's is its operator's
  const node = drawn.nodes[n];
  for (const side of [false, true]) {
    drawn.sides[side].forEach((view, k) => { if (view) updateNode(drawn.nodes[k], view, side, k === n && side === backward); });
  }
  const linked = node && drawn.sides.true[n] && drawn.sides.false[n];
  const y = node ? drawn.top + node.y + node.height / 2 : 0;
  drawn.link.setAttribute('d', linked ? `M${drawn.shift.false + node.x + node.width},${y} H${drawn.shift.true + node.x}` : '');
  if (node) scrollTo(node, backward);
  byId('frame').replaceChildren(...frameView());
}

function scrollTo(node, backward) {
  const area = byId('graph');
  const x = (drawn.shift[backward] + node.x + node.width / 2) * zoom, y = (drawn.top + node.y + node.height / 2) * zoom;
  const away = x < area.scrollLeft + 40 || x > area.scrollLeft + area.clientWidth - 40 ||
    y < area.scrollTop + 60 || y > area.scrollTop + area.clientHeight - 60;
  if (away) area.scrollTo(x - area.clientWidth / 2, y - area.clientHeight / 2);
}

const line = (text, style = '') => html('p', style ? {class: style} : {}, text);
function frameView() {
  if (frames.length === 0) return [line('The recording has no operators.')];
  const {entry: i, backward, kept: bytes} = frames[current], entry = entries[i];
  const view = [html('h2', {'aria-live': 'polite'}, heading(current))];
  const nameOf = input => input.name === label(input.entry) ? input.name : `${input.name} = ${label(input.entry)}`;
  const outputs = (letter, key, note) => entry.outputs.forEach((output, k) => {
    if (entry.outputs.length > 1 && backward && output[key] === undefined) return;
    view.push(tensorView(entry.outputs.length > 1 ? `${letter}${k}` : letter, output, output[key], note));
  });
  if (!backward) {
    if (entry.rule) view.push(line(entry.rule, 'rule'));
    for (const input of entry.inputs) {
      const output = entries[input.entry].outputs[input.output];
      view.push(tensorView(nameOf(input), output, output.value));
    }
    outputs('y', 'value');
    if (entry.example) view.push(line(entry.example, 'example'));
    view.push(line(!entry.recorded ? 'not recorded: no operand wants a gradient, backward does not come here'
      : entry.saved.length ? `keeps for backward: ${entry.saved.join(', ')}; ${bytesText(entry.bytes)}, ${bytesText(bytes)} in all`
      : `keeps nothing for backward; ${bytesText(bytes)} in all`, 'note'));
    view.push(line(`${number(entry.forward_ms)} ms`, 'note'));
    if (current === lossFrame && current + 1 < frames.length) view.push(line('backward begins here, with dy = 1'));
    return view;
  }
  outputs(entry.kind === 'leaf' ? 'its gradient' : 'dy', 'gradient', entry.kind === 'leaf' ? '' : 'arrives');
  for (const input of entry.inputs.filter(one => one.wants)) {
    if (input.rule) view.push(line(input.rule, 'rule'));
    if (input.example) view.push(line(input.example, 'example'));
  }
  for (const input of entry.kind === 'leaf' ? [] : entry.inputs.filter(one => one.wants)) {
    const same = other => other.entry === input.entry && other.output === input.output;
    const given = entry.given.find(one => same(entry.inputs[one.input]));
    if (given && entry.inputs[given.input] !== input) continue;
    const output = entries[input.entry].outputs[input.output];
    view.push(tensorView(`gradient of ${label(input.entry)}`, output, given ? given.sum : output.gradient,
                         !given ? 'when complete' : given.first ? 'is now' : 'grows to'));
  }
  if (entry.saved.length) view.push(line(`frees ${entry.saved.join(', ')}; ${bytesText(entry.bytes)}, ${bytesText(bytes)} still kept`, 'note'));
  view.push(line(`${number(entry.backward_ms)} ms`, 'note'));
  return view;
}

// ---- controls

function goTo(frame) {
  current = Math.max(0, Math.min(frames.length - 1, frame));
  showFrame();
}

function setZoom(value) {
  zoom = Math.max(0.1, Math.min(4, value));
  drawn.image.setAttribute('width', drawn.width * zoom);
  drawn.image.setAttribute('height', drawn.height * zoom);
}
const redraw = () => { drawGraph(); setZoom(zoom); };
function fit(whole) {
  const area = byId('graph');
  const wide = (area.clientWidth - 16) / drawn.width, high = (area.clientHeight - 16) / drawn.height;
  const readable = Math.min(wide, high) > 0.6;
  setZoom(whole ? Math.min(wide, high) : Math.min(1, readable ? Math.min(wide, high) : Math.max(wide, 0.5)));
}

// Unfolds what holds the entry.
function reveal(i) {
  eachGroup(group => { if (group.ops.includes(i)) group.open = true; });
  redraw();
}

function search(text) {
  if (!text) return;
  for (let k = 1; k <= frames.length; ++k) {
    const f = (current + k) % frames.length;
    if (!heading(f).toLowerCase().includes(text.toLowerCase())) continue;
    current = f;
    const i = frames[f].entry;
    reveal(entries[i].kind === 'op' ? i : users[i][0] ?? i);
    byId('search').classList.remove('nothing');
    return;
  }
  byId('search').classList.add('nothing');
}

function foldAll(open) {
  eachGroup(group => { group.open = open; });
  redraw();
}

function legend() {
  const sample = (family, text) => html('li', {}, svg('svg', {class: 'drawing', width: 24, height: 16},
    svg('rect', {class: family, x: 1, y: 1, width: 22, height: 14, rx: family === 'leaf' ? 7 : family === 'constant' ? 0 : 4})), text);
  const heat = (style, text) => html('li', {}, svg('svg', {class: 'heat', width: 24, height: 16},
    svg('rect', {class: style, x: 1, y: 1, width: 22, height: 14, 'fill-opacity': 0.9})), text);
  const word = (text, meaning) => html('li', {}, html('b', {}, text), ` ${meaning}`);
  const used = new Set(entries.map(entry => entry.family));
  byId('legend').append(
    html('ul', {}, ...data.families.filter(one => used.has(one.name)).map(one => sample(one.name, one.legend)),
      ...(top_.some(item => item.items) ? [sample('module', 'module, folded (▸): a click unfolds it, a click on its name (▾) folds it')] : []),
      word('(2,3)', 'shape of the result'), word('‖y‖', 'Euclidean norm of the result'),
      word('‖∇‖', 'norm of the gradient of the loss that has arrived'),
      heat('positive', 'positive'), heat('negative', 'negative: the stronger, the nearer to the largest of its tensor'),
      heat('odd', 'not finite'), word('┄', 'the operator and its step backward'),
      word('hollow', 'has not run yet')),
    html('p', {}, 'Keys: n or → next, p or ← previous, b the loss, f the end, / search, v all values, + − 0 zoom, Enter on a box as a click.'),
    html('p', {class: 'note'}, leftOut()));
}

function leftOut() {
  const parts = [];
  if (data.left_out) {
    parts.push(`${data.left_out[0].toUpperCase()}${data.left_out.slice(1)}.`);
  } else if (entries.some(entry => entry.outputs.some(output => output.value && !Array.isArray(output.value)))) {
    parts.push('Tensors of more than 4,096 values have their statistics instead.');
  }
  if (data.beside > 0) parts.push(`${plural(data.beside, 'operator')} that no gradient passes ${data.beside === 1 ? 'is' : 'are'} left out.`);
  return parts.join(' ');
}

const keys = {
  n: () => goTo(current + 1), ArrowRight: () => goTo(current + 1),
  p: () => goTo(current - 1), ArrowLeft: () => goTo(current - 1),
  b: () => goTo(lossFrame), f: () => goTo(frames.length - 1),
  v: () => { byId('all').checked = !byId('all').checked; showFrame(); },
  '/': () => byId('search').focus(),
  '+': () => setZoom(zoom * 1.25), '-': () => setZoom(zoom / 1.25), '0': () => fit(true)};
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target === byId('search');
  if (event.key === 'Escape' && typing) byId('search').blur();
  if (typing && event.key === 'Enter') search(byId('search').value);
  if (typing || !Object.hasOwn(keys, event.key)) return;
  if (event.target === byId('slider') && event.key.startsWith('Arrow')) return;
  event.preventDefault();
  keys[event.key]();
});
byId('slider').addEventListener('input', () => goTo(Number(byId('slider').value)));
for (const [id, key] of [['next', 'n'], ['previous', 'p'], ['loss', 'b'], ['end', 'f'], ['in', '+'], ['out', '-'], ['fit', '0']]) {
  byId(id).addEventListener('click', keys[key]);
}
byId('fold').addEventListener('click', () => foldAll(false));
byId('unfold').addEventListener('click', () => foldAll(true));
byId('leaves').addEventListener('change', redraw);
byId('all').addEventListener('change', showFrame);
byId('graph').addEventListener('wheel', event => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  setZoom(zoom * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
}, {passive: false});

byId('title').textContent = data.title;
byId('slider').max = Math.max(0, frames.length - 1);
if (!top_.some(item => item.items)) byId('fold').parentElement.hidden = true;
legend();
byId('legend').open = innerHeight >= 1000;
addEventListener('beforeprint', () => { byId('legend').open = true; });
if (entries.length > 0) {
  drawGraph();
  fit(false);
  showFrame();
}
