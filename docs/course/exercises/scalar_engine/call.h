// Runs the learner's tape on L = w + 2 w x + u + e + e^2 with u = w x + b and e = tanh(u) - t. Each
// rule meets an operand that a later row gave a gradient before: '=' in place of '+=' shows.
template <class T>
void scalar_engine(T x, T w, T b, T t, T& dx, T& dw, T& db) {
  Tape<T> tape;
  const int row_t = tape.input(-t), row_b = tape.input(b);
  const int row_w = tape.input(w), row_x = tape.input(x);
  const int product = tape.mul(row_w, row_x), u = tape.add(product, row_b);
  const int e = tape.add(tape.tanh(u), row_t);
  const int sum = tape.add(u, tape.add(e, tape.square(e)));
  tape.backward(tape.add(row_w, tape.add(product, tape.add(product, sum))));
  dx = tape.rows[row_x].gradient;
  dw = tape.rows[row_w].gradient;
  db = tape.rows[row_b].gradient;
}
