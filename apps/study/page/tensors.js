'use strict';
// Tensors as heat maps with numbers, and as histograms.

const statisticsOf = values => {
  const finite = values.filter(value => typeof value === 'number');
  const sum = finite.reduce((a, b) => a + b, 0), squares = finite.reduce((a, b) => a + b * b, 0);
  return {norm: Math.sqrt(squares), mean: sum / finite.length,
          minimum: Math.min(...finite), maximum: Math.max(...finite),
          zeros: finite.filter(value => value === 0).length, not_finite: values.length - finite.length};
};
const oddText = s =>
  (s.zeros ? `, ${plural(s.zeros, 'zero')}` : '') + (s.not_finite ? `, ${s.not_finite} not finite` : '');
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
const largestOf = values =>
  values.reduce((most, value) => typeof value === 'number' ? Math.max(most, Math.abs(value)) : most, 0);

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
    const image = canvas(written && !all ? 'heat fits' : 'heat', w + 1, h + 1);
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
    box.append(line(`${tiles.length - shown.length} more; v shows all`, 'note'));
  }
  return box;
}

function histogram(tensor) {
  const most = Math.max(1, ...tensor.histogram), width = 320, height = 70;
  const image = canvas('bars', width, height + 16);
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
    html('p', {}, html('b', {}, name), ` ${shapeText(output)} ${output.dtype} `, html('i', {}, note)));
  if (tensor === undefined) {
    view.append(line(output.shape.includes(0) ? 'empty' : 'not recorded', 'note'));
  } else if (Array.isArray(tensor)) {
    const s = statisticsOf(tensor);
    view.append(heatMap(output.shape, tensor, byId('all').checked));
    if (tensor.length > 8) {
      view.append(line(`norm ${number(s.norm)}, ${number(s.minimum)} to ${number(s.maximum)}${oddText(s)}`, 'note'));
    }
  } else {
    const {norm, mean, deviation} = tensor;
    view.append(histogram(tensor), line(
      `norm ${number(norm)}, mean ${number(mean)}, deviation ${number(deviation)}${oddText(tensor)}`, 'note'));
  }
  return view;
}
