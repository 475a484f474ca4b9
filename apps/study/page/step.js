'use strict';
// The page of `whisker study graph`: what it shows of the step, and the modules that fold. layout.js,
// tensors.js, graph.js and frame.js follow it. Text is always set as text, never as HTML: names of
// layers are foreign.

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
const canvas = (style, width, height) =>
  svg('svg', {class: style, width, height, viewBox: `0 0 ${width} ${height}`});

const line = (text, style = '') => html('p', {class: style}, text);

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
