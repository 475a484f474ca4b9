// A copy onto a device in order with its operators.
#pragma once

#include "core/backend/backend.h"
#include "core/tensor/tensor.h"

namespace whisker {

/// Both have one shape and dtype; `source` may be the host's, and is read before the next call.
inline void enqueue_copy(const Tensor& source, const Tensor& target) {
  if (source.raw() == target.raw()) return;  // a GPU's loader has written it there
  Backend& backend = backend_of(target.device());
  if (source.device() == target.device()) {
    backend.copy(source.raw(), target.raw(), target.bytes());
  } else {
    backend.enqueue_upload(source.raw(), target.raw(), target.bytes());
  }
}

}  // namespace whisker
