// Runs the learner's tape on L = (tanh(w x + b) - t)^2 + w x, in which w, x and w x are used twice.
template <class T>
void scalar_engine(T x, T w, T b, T t, T& dx, T& dw, T& db) {
  Tape<T> tape;
  const int row_x = tape.input(x), row_w = tape.input(w), row_b = tape.input(b);
  const int product = tape.mul(row_w, row_x);
  const int error = tape.add(tape.tanh(tape.add(product, row_b)), tape.input(-t));
  tape.backward(tape.add(tape.square(error), product));
  dx = tape.rows[row_x].gradient;
  dw = tape.rows[row_w].gradient;
  db = tape.rows[row_b].gradient;
}
