// Activations. The first derivative is one kernel; it is itself a recorded operator whose
// derivative uses f'', so second derivatives work. See Note [Second derivatives of activations].
#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/elementwise.h"
#include "core/ops/checks.h"

namespace whisker {

// Note [Second derivatives of activations]
// dx = f'(x) dy depends on x and dy. Where f' follows from y, y is what is kept, yet the derivative
// of dx belongs to x. So under create_graph the kept values are put at x's place on the tape: the
// recorded "activation_backward" has x's edge as its first input, whatever it computes from.

std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::none:
      return "none";
    case Activation::relu:
      return "relu";
    case Activation::leaky_relu:
      return "leaky_relu";
    case Activation::sigmoid:
      return "sigmoid";
    case Activation::tanh:
      return "tanh";
    case Activation::gelu:
      return "gelu";
    case Activation::silu:
      return "silu";
    case Activation::softplus:
      return "softplus";
    case Activation::relu6:
      return "relu6";
    case Activation::hard_sigmoid:
      return "hard_sigmoid";
    case Activation::hard_swish:
      return "hard_swish";
  }
  return "?";
}

namespace {

// f''(x) dy v. Ends the chain: there is no third derivative.
Tensor activation_second(ActivationSpec f, const Tensor& kept, const Tensor& dy, const Tensor& v) {
  const Tensor out = empty_like(dy);
  if (out.count() > 0) {
    backend_of(dy.device())
        .elementwise()
        .activation_second(f, {.saved = kept, .dy = dy, .v = v}, out);
  }
  record("activation_second", {&kept, &dy, &v}, out, [f](Gradients&) {
    fail(ErrorKind::usage, "{}: third derivatives of activations are not available.",
         name_of(f.kind));
  });
  return out;
}

// f'(x) dy; `kept` stands at x's place on the tape.
Tensor activation_backward(ActivationSpec f, const Tensor& kept, const Tensor& dy) {
  const Tensor dx = empty_like(dy);
  if (dx.count() > 0) backend_of(dy.device()).elementwise().activation_backward(f, kept, dy, dx);
  record("activation_backward", {&kept, &dy}, dx,
         [f, kept = save(kept), dy = save_if(needs_grad(kept), dy)](Gradients& g) {
           if (g.needs(0)) g.accumulate_grad(0, activation_second(f, kept(g), dy(g), g.dy()));
           if (g.needs(1)) g.accumulate_grad(1, activation_backward(f, kept(g), g.dy()));
         });
  return dx;
}

}  // namespace

Tensor activation(const Tensor& x, ActivationSpec f) {
  if (f.kind == Activation::none) return x;
  const char* name = name_of(f.kind).data();  // a literal, so null-terminated
  check_computes(name, "x", x);
  check_activation(name, f);
  const Tensor y = empty_like(x);
  if (y.count() > 0) backend_of(x.device()).elementwise().activation(f, x, y);
  const bool from_output = grad_from_output(f.kind);
  if (f.kind == Activation::leaky_relu) describe_op("slope {}", f.slope);
  record(name, {&x}, y, [f, kept = from_output ? save_output(y) : save(x)](Gradients& g) {
    const Tensor values = kept(g);
    if (g.recording()) {
      const Tensor at_x = values.detach();
      at_x.attach(g.node().inputs()[0].node, g.node().inputs()[0].output);
      g.accumulate_grad(0, activation_backward(f, at_x, g.dy()));
      return;
    }
    const Tensor dx = g.grad_buffer(0);
    if (dx.count() > 0) {
      backend_of(dx.device()).elementwise().activation_backward(f, values, g.dy(), dx);
    }
  });
  return y;
}

Tensor relu(const Tensor& x) {
  return activation(x, {.kind = Activation::relu});
}
Tensor leaky_relu(const Tensor& x, double slope) {
  return activation(x, {.kind = Activation::leaky_relu, .slope = static_cast<float>(slope)});
}
Tensor gelu(const Tensor& x) {
  return activation(x, {.kind = Activation::gelu});
}
Tensor silu(const Tensor& x) {
  return activation(x, {.kind = Activation::silu});
}
Tensor sigmoid(const Tensor& x) {
  return activation(x, {.kind = Activation::sigmoid});
}
Tensor tanh(const Tensor& x) {
  return activation(x, {.kind = Activation::tanh});
}
Tensor softplus(const Tensor& x) {
  return activation(x, {.kind = Activation::softplus});
}
Tensor relu6(const Tensor& x) {
  return activation(x, {.kind = Activation::relu6});
}
Tensor hard_sigmoid(const Tensor& x) {
  return activation(x, {.kind = Activation::hard_sigmoid});
}
Tensor hard_swish(const Tensor& x) {
  return activation(x, {.kind = Activation::hard_swish});
}

}  // namespace whisker
