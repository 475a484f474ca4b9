'use strict';
// The frame that is shown, and the controls.

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
  view.element.classList.toggle('dead', backward && tensor !== undefined && normOf(tensor) === 0);
  if (view.norm) {
    view.norm.textContent = tensor === undefined ? '' : `‖${backward ? '∇' : 'y'}‖ ${number(normOf(tensor))}`;
  }
  if (!node.mini) return;
  view.values.replaceChildren();
  if (!Array.isArray(tensor)) return;
  const largest = largestOf(tensor);
  tensor.forEach((value, i) => {
    const column = i % node.mini.columns, row = Math.floor(i / node.mini.columns);
    view.values.append(cell(value, largest, column * miniCell, row * miniCell, miniCell, miniCell));
  });
}

function showFrame(scroll = true) {
  byId('slider').value = current;
  byId('place').textContent = `${current + 1} / ${frames.length}`;
  const {entry: i, backward} = frames[current];
  const n = drawn.nodeOf.get(i) ?? drawn.nodeOf.get(users[i][0]);  // a hidden parameter's is its operator's
  const node = drawn.nodes[n];
  for (const side of [false, true]) {
    drawn.sides[side].forEach((view, k) => {
      if (view) updateNode(drawn.nodes[k], view, side, k === n && side === backward);
    });
  }
  const linked = node && drawn.sides.true[n] && drawn.sides.false[n];
  const y = node ? drawn.top + node.y + node.height / 2 : 0;
  const {shift} = drawn;
  drawn.link.setAttribute('d', linked ? `M${shift.false + node.x + node.width},${y} H${shift.true + node.x}` : '');
  if (node && scroll) scrollTo(node, backward);
  byId('frame').replaceChildren(...frameView());
}

function scrollTo(node, backward) {
  const area = byId('graph');
  const x = (drawn.shift[backward] + node.x + node.width / 2) * zoom;
  const y = (drawn.top + node.y + node.height / 2) * zoom;
  const away = x < area.scrollLeft + 40 || x > area.scrollLeft + area.clientWidth - 40 ||
    y < area.scrollTop + 60 || y > area.scrollTop + area.clientHeight - 60;
  if (away) area.scrollTo(x - area.clientWidth / 2, y - area.clientHeight / 2);
}

const duration = ms => ms < 0.1 ? `${number(ms * 1000)} \u00b5s` : `${number(ms)} ms`;

function frameView() {
  if (frames.length === 0) return [line('The recording has no operators.')];
  const {entry: i, backward, kept: bytes} = frames[current], entry = entries[i];
  const [title, ...attributes] = heading(current).split('; ');
  const view = [html('h2', {'aria-live': 'polite'}, title)];
  if (attributes.length) view.push(line(attributes.join('; '), 'note'));
  const saved = `${entry.saved.join(', ')}; ${bytesText(entry.bytes)}`;
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
      : entry.saved.length ? `keeps for backward: ${saved}, ${bytesText(bytes)} in all`
      : `keeps nothing for backward; ${bytesText(bytes)} in all`, 'note'));
    view.push(line(`took ${duration(entry.forward_ms)}`, 'note'));
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
  if (entry.saved.length) view.push(line(`frees ${saved}, ${bytesText(bytes)} still kept`, 'note'));
  view.push(line(`took ${duration(entry.backward_ms)}`, 'note'));
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
  showFrame();
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

// page.html#12 shows frame 12.
function followAddress() {
  const frame = Number(location.hash.slice(1));
  if (frame >= 1) goTo(frame - 1);
}
addEventListener('hashchange', followAddress);

function legend() {
  const sample = (style, text, of, rx = 4) => {
    const image = canvas(of, 24, 16);
    image.append(svg('rect', {class: style, x: 1, y: 1, width: 22, height: 14, rx}));
    return html('li', {}, image, text);
  };
  const family = (name, text) => sample(name, text, 'drawing', {leaf: 7, constant: 0}[name]);
  const word = (text, meaning) => html('li', {}, html('b', {}, text), ` ${meaning}`);
  const used = new Set(entries.map(entry => entry.family));
  byId('legend').append(
    html('ul', {}, ...data.families.filter(one => used.has(one.name)).map(one => family(one.name, one.legend)),
      ...(top_.some(item => item.items)
        ? [family('module', 'module, folded (▸): a click unfolds it, a click on its name (▾) folds it')] : []),
      word('(2,3)', 'shape of the result'), word('‖y‖', 'Euclidean norm of the result'),
      word('‖∇‖', 'norm of the gradient of the loss that has arrived'),
      sample('positive', 'positive', 'heat', 0),
      sample('negative', 'negative: the stronger, the nearer to the largest of its tensor', 'heat', 0),
      sample('odd', 'not finite', 'heat', 0), word('┄', 'the operator and its step backward'),
      word('hollow', 'has not run yet'), sample('dead', 'the gradient is 0', 'drawing')),
    line('Keys: n or → next, p or ← previous, b the loss, f the end, / search, v all values, ' +
      '+ − 0 zoom, Enter on a box as a click.'),
    line(leftOut(), 'note'));
}

function leftOut() {
  const parts = [];
  if (data.left_out) {
    parts.push(`${data.left_out[0].toUpperCase()}${data.left_out.slice(1)}.`);
  } else if (entries.some(entry => entry.outputs.some(output => output.value && !Array.isArray(output.value)))) {
    parts.push('Tensors of more than 4,096 values have their statistics instead.');
  }
  if (data.beside > 0) {
    const are = data.beside === 1 ? 'is' : 'are';
    parts.push(`${plural(data.beside, 'operator')} that no gradient passes ${are} left out.`);
  }
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
const buttons = {next: 'n', previous: 'p', loss: 'b', end: 'f', in: '+', out: '-', fit: '0'};
for (const [id, key] of Object.entries(buttons)) {
  byId(id).addEventListener('click', keys[key]);
}
byId('fold').addEventListener('click', () => foldAll(false));
byId('unfold').addEventListener('click', () => foldAll(true));
byId('leaves').addEventListener('change', redraw);
byId('all').addEventListener('change', () => showFrame());
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
  followAddress();
}
