// Runs the learner's tape on L = w + x + 2 w x + 2 u + 2 e + 3 e^2 with u = w x + b and
// e = tanh(u) - t. Each rule meets operands that a later row gave a gradient before: '=' in place
// of '+=' shows. No gradient of a row is 1 but those of sums: a rule without dy shows, too.
template <class T>
void scalar_engine(T x, T w, T b, T t, T& dx, T& dw, T& db) {
  Tape<T> tape;
  const int row_t = tape.input(-t), row_b = tape.input(b);
  const int row_w = tape.input(w), row_x = tape.input(x);
  const int product = tape.mul(row_w, row_x), u = tape.add(product, row_b);
  const int e = tape.add(tape.tanh(u), row_t);
  const int square = tape.square(e), squares = tape.add(square, tape.add(square, square));
  const int sum = tape.add(u, tape.add(u, tape.add(e, tape.add(e, squares))));
  const int products = tape.add(product, tape.add(product, sum));
  tape.backward(tape.add(row_w, tape.add(row_x, products)));
  dx = tape.rows[row_x].gradient;
  dw = tape.rows[row_w].gradient;
  db = tape.rows[row_b].gradient;
}
