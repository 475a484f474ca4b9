#include "apps/study/builtin_networks.h"

namespace whisker {

std::span<const BuiltinNetwork> builtin_networks() {
  static const std::vector<BuiltinNetwork> networks = {
      {"mlp",
       "two dense layers and a squared error",
       "mean((tanh(x @ w1 + b1) @ w2 + b2 - target)^2)",
       {{"x", "const([[1, 2], [-1, 0.5]])"},
        {"w1", "[[0.5, -0.3, 0.8], [0.2, 0.7, -0.6]]"},
        {"b1", "[0.1, 0, -0.1]"},
        {"w2", "[[0.9], [-0.4], [0.3]]"},
        {"b2", "[0.2]"},
        {"target", "const([[1], [0]])"}}},
      {"conv",
       "one convolution of an image of 4x4 pixels, relu and an average",
       "mean((global_avg_pool2d(relu(conv2d(x, w, b, padding=1))) - target)^2)",
       {{"x", "const(randn(1, 4, 4, 1))"},
        {"w", "randn(2, 3, 3, 1)"},
        {"b", "[0.1, -0.1]"},
        {"target", "const([[1, 0]])"}}},
      {"max_pool_tie",
       "max-pooling of a window in which two pixels are the largest",
       "0.5 * sum(max_pool2d(x, kernel=2))",
       {{"x", "[[[[1], [3]], [[3], [2]]]]"}}},
      {"batch_norm",
       "batch normalisation of four examples with two channels",
       "mean((batch_norm(x, gamma, beta) - target)^2)",
       {{"x", "[[1, 0.2], [2, -0.4], [0, 0.9], [3, 0.1]]"},
        {"gamma", "[1.5, 0.5]"},
        {"beta", "[0, 0.1]"},
        {"target", "const([[0, 1], [1, 0], [0, 1], [1, 0]])"}}},
      {"lstm_cell",
       "one step of an LSTM with two units, gate by gate",
       "z = x @ w + h @ u + b; i = sigmoid(slice(z, 1, 0, 2)); f = sigmoid(slice(z, 1, 2, 4)); "
       "g = tanh(slice(z, 1, 4, 6)); o = sigmoid(slice(z, 1, 6, 8)); new_c = f * c + i * g; "
       "mean((o * tanh(new_c) - target)^2)",
       {{"x", "const([[1, -0.5, 0.3]])"},
        {"w", "randn(3, 8)"},
        {"h", "const([[0.2, -0.1]])"},
        {"u", "randn(2, 8)"},
        {"b", "zeros(8)"},
        {"c", "const([[0.5, -0.3]])"},
        {"target", "const([[1, 0]])"}}},
      {"attention",
       "one head over three tokens, operator by operator",
       "q = x @ wq; k = x @ wk; v = x @ wv; a = softmax(q @ transpose(k) / 1.414214); "
       "mean((a @ v - target)^2)",
       {{"x", "const([[1, 0], [0, 1], [1, 1]])"},
        {"wq", "randn(2, 2)"},
        {"wk", "randn(2, 2)"},
        {"wv", "randn(2, 2)"},
        {"target", "const([[1, 0], [0, 1], [0.5, 0.5]])"}}},
      {"residual",
       "a layer with a connection around it: the gradient comes two ways",
       "h = x @ w1; mean((h + relu(h @ w2) - target)^2)",
       {{"x", "const([[1, 2]])"},
        {"w1", "[[0.5, -0.2], [0.3, 0.4]]"},
        {"w2", "[[0.6, -0.7], [0.1, 0.2]]"},
        {"target", "const([[0, 1]])"}}},
  };
  return networks;
}

const BuiltinNetwork* find_builtin_network(std::string_view name) {
  for (const BuiltinNetwork& network : builtin_networks()) {
    if (network.name == name) return &network;
  }
  return nullptr;
}

std::vector<std::string> builtin_network_names() {
  std::vector<std::string> names;
  for (const BuiltinNetwork& network : builtin_networks()) names.emplace_back(network.name);
  return names;
}

}  // namespace whisker
