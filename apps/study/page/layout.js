'use strict';
// Layout: rows by longest path, order by barycenters, columns by medians (Sugiyama, Tagawa and
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
  const count = row => row.forEach((slot, i) => { slot.at = i; });
  rows.forEach(count);
  const crossings = () => {
    let sum = 0;
    for (const row of rows) {
      const ends = [];
      for (const slot of row) {
        for (const other of slot.below) sum += ends.filter(end => end > other.at).length;
        ends.push(...slot.below.map(other => other.at));
      }
    }
    return sum;
  };
  let best = rows.map(row => [...row]), fewest = crossings();
  for (let sweep = 0; sweep < 8 && fewest > 0; ++sweep) {
    for (const side of ['above', 'below']) {
      const order = side === 'above' ? rows : [...rows].reverse();
      for (const row of order) {
        for (const slot of row) {
          const near = slot[side];
          slot.key = near.length ? near.reduce((sum, other) => sum + other.at, 0) / near.length : slot.at;
        }
        row.sort((a, b) => a.key - b.key);
        count(row);
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
