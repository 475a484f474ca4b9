'use strict';
// The graph: boxes and arrows, forward and backward side by side.

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
    const parts = last.name.split('.');  // of a parameter, its layer's and its own
    const [name, layer] = last.kind === 'op' ? [label(item.op), last.layer]
      : [parts.pop(), parts.join('.')];
    node.lines = [name, ...(layer && layer !== last.name ? [layer] : [])];
    node.lines.push(node.shape);
    node.family = last.family;
    node.mini = mini(last.outputs[0]);
  }
  node.norm = last.outputs[0].value !== undefined || last.outputs[0].gradient !== undefined;
  const widths = node.lines.map(text => [...text].length * charWidth);
  node.width = 22 + Math.max(60, node.mini ? node.mini.width : 0, ...widths);
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
  const nesting = levels(top_);
  const size = place(nodes, edges, {row: 24 + captionHeight * nesting, column: 24 + 8 * nesting});
  const margin = 20 + captionHeight * nesting, gap = 70, titleHeight = 34;
  const width = 2 * (size.width + 2 * margin) + gap, height = size.height + titleHeight + 2 * margin;
  const shift = {false: margin, true: size.width + 3 * margin + gap};
  const link = svg('path', {class: 'link'});
  const head = {id: 'head', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto'};
  const image = canvas('drawing', width, height);
  const tip = svg('path', {class: 'head', d: 'M0,0.6 L8,4 L0,7.4 L1.8,4 Z'});
  image.append(svg('defs', {}, svg('marker', head, tip)), link);
  const sides = {};
  for (const backward of [false, true]) {
    const side = svg('g', {transform: `translate(${shift[backward]},${titleHeight + margin})`});
    const title = backward ? 'backward ↑' : 'forward ↓';
    side.append(svg('text', {class: 'side', x: size.width / 2, y: -margin - 4}, title));
    for (const box of moduleFrames(nodes, backward)) side.append(box);
    for (const edge of edges) {
      if (backward && !edge.wants) continue;
      const points = edge.points.map(([x, y]) => [+x.toFixed(1), +y.toFixed(1)]);
      const d = curve(backward ? points.reverse() : points);
      side.append(svg('path', {class: 'edge', 'marker-end': 'url(#head)', d}));
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
  drawn = {image, nodes, nodeOf, sides, shift, width, height, link, top: titleHeight + margin};
  showFrame(false);
}

const captionHeight = 13;
// Levels of unfolded modules among these.
const levels = items => Math.max(0, ...items.map(item => item.items && item.open ? 1 + levels(item.items) : 0));
// Rectangles around what unfolded modules have on this graph; their name folds them.
function moduleFrames(nodes, backward) {
  const boxes = [];
  eachGroup(group => {
    let above = group;
    while (above && above.open) above = above.parent;
    if (above) return;
    const inside = nodes.filter(node => node.entries.every(i => group.ops.includes(i)));
    const below = levels(group.items), pad = 7 + 5 * below;
    const x = Math.min(...inside.map(node => node.x)) - pad;
    const y = Math.min(...inside.map(node => node.y)) - 4 - captionHeight * (below + 1);
    const right = Math.max(...inside.map(node => node.x + node.width)) + pad;
    const bottom = Math.max(...inside.map(node => node.y + node.height)) + pad - 2;
    const name = svg('text', {class: 'start', x: x + 6, y: y + 10}, `▾ ${group.path.split('.').pop()}`);
    const element = svg('g', {class: 'frame', tabindex: 0, role: 'button', 'aria-label': `fold ${group.path}`},
      svg('rect', {x, y, width: right - x, height: bottom - y, rx: 8}), name);
    element.dataset.fold = group.path;
    activate(element, () => setOpen(group, false, backward));
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

// What was clicked stays in view and keeps the focus.
function setOpen(group, open, backward) {
  group.open = open;
  redraw();
  const same = drawn.image.querySelectorAll(`[data-${open ? 'fold' : 'node'}="${CSS.escape(group.path)}"]`);
  const element = [...same].at(backward ? -1 : 0);
  element.focus({preventScroll: true});
  element.querySelector('text').scrollIntoView({block: 'nearest', inline: 'nearest'});
}

function nodeView(node, backward) {
  const at = (x, y) => ({transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`});
  const element = svg('g', {class: 'node', tabindex: 0, role: 'button', ...at(node.x, node.y)});
  const radius = node.family === 'leaf' ? 12 : node.family === 'constant' ? 0 : 6;
  element.append(svg('title', {}, node.item.items ? node.item.path : label(node.item.op)));
  element.append(svg('rect', {class: node.family, width: node.width.toFixed(1), height: node.height, rx: radius}));
  const isOperator = node.family !== 'leaf' && node.family !== 'constant';
  let y = 18;
  node.lines.forEach((line, i) => {
    const style = i === node.lines.length - 1 ? 'shape' : i > 0 ? 'quiet' : isOperator ? 'op' : '';
    element.append(svg('text', {class: style, x: node.width / 2, y}, line));
    y += 15;
  });
  const norm = node.norm ? svg('text', {class: backward ? 'grad' : 'quiet', x: node.width / 2, y}) : null;
  if (norm) element.append(norm);
  const values = svg('g', at(node.mini ? (node.width - node.mini.width) / 2 : 0, norm ? y + 4 : y - 11));
  element.append(values);
  const frame = node.entries.map(i => frameOf[backward].get(i)).filter(f => f !== undefined);
  element.setAttribute('aria-label', node.lines.join(' ') + (backward ? ', backward' : ''));
  element.dataset.node = node.item.items ? node.item.path : label(node.item.op);
  activate(element, () => {
    if (node.item.items) return setOpen(node.item, true, backward);
    const user = users[node.item.op].find(i => frameOf[backward].has(i));
    goTo(frame.length ? frame[0] : frameOf[backward].get(user) ?? current);
  });
  return {element, norm, values, first: Math.min(...frame, Infinity)};
}
