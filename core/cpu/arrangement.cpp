// Conversions between layouts. Blocked and plain memory both keep channels side by side, so that a
// conversion moves whole blocks; planar memory is a transpose of few channels.
#include "core/cpu/arrangement.h"

#include "core/autograd.h"
#include "core/cpu/parallel.h"
#include "core/cpu/vectorize.h"

#include <algorithm>
#include <cstring>

namespace whisker::cpu {
namespace {

// One plane of one block: `width` real channels of `block`.
template <class T>
WHISKER_VECTORIZE void to_block(const T* plain, int64_t channels, int64_t width, int64_t block,
                                int64_t places, T* blocked) {
  for (int64_t p = 0; p < places; ++p) {
    for (int64_t c = 0; c < width; ++c) blocked[p * block + c] = plain[p * channels + c];
    for (int64_t c = width; c < block; ++c) blocked[p * block + c] = T(0);
  }
}

template <class T>
WHISKER_VECTORIZE void from_block(const T* blocked, int64_t channels, int64_t width, int64_t block,
                                  int64_t places, T* plain) {
  for (int64_t p = 0; p < places; ++p) {
    for (int64_t c = 0; c < width; ++c) plain[p * channels + c] = blocked[p * block + c];
  }
}

template <class T>
WHISKER_VECTORIZE void to_planes(const T* plain, int64_t channels, int64_t places, T* planar) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t p = 0; p < places; ++p) planar[c * places + p] = plain[p * channels + c];
  }
}

template <class T>
WHISKER_VECTORIZE void from_planes(const T* planar, int64_t channels, int64_t places, T* plain) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t p = 0; p < places; ++p) plain[p * channels + c] = planar[c * places + p];
  }
}

/// Calls fn(position in plain, position in blocked, real channels) for every plane.
template <class Fn>
void for_each_block_plane(const Arrangement& a, Fn&& fn) {
  const int64_t blocks = a.blocks();
  const int64_t plane = a.places * a.block;
  parallel_ranges(a.n * blocks, rows_grain(plane), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t channel = i % blocks * a.block;
      fn(i / blocks * a.places * a.channels + channel, i * plane,
         std::min(a.block, a.channels - channel));
    }
  });
}

/// Calls fn(position) for every picture: the same in plain and in planes.
template <class Fn>
void for_each_picture(const Arrangement& a, Fn&& fn) {
  const int64_t picture = a.places * a.channels;
  parallel_ranges(a.n, rows_grain(picture), [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) fn(n * picture);
  });
}

template <class T>
void arrange_as(const Arrangement& a, const T* plain, T* arranged) {
  if (a.layout == Layout::blocked) {
    for_each_block_plane(a, [&](int64_t from, int64_t to, int64_t width) {
      to_block(plain + from, a.channels, width, a.block, a.places, arranged + to);
    });
  } else {
    for_each_picture(
        a, [&](int64_t at) { to_planes(plain + at, a.channels, a.places, arranged + at); });
  }
}

template <class T>
void write_plain_as(const Arrangement& a, const T* arranged, T* plain) {
  if (a.layout == Layout::blocked) {
    for_each_block_plane(a, [&](int64_t to, int64_t from, int64_t width) {
      from_block(arranged + from, a.channels, width, a.block, a.places, plain + to);
    });
  } else {
    for_each_picture(
        a, [&](int64_t at) { from_planes(arranged + at, a.channels, a.places, plain + at); });
  }
}

// Elements are moved as opaque bits.
template <class Fn>
void visit_bytes(int64_t bytes, Fn&& fn) {
  if (bytes == 1) return fn.template operator()<uint8_t>();
  if (bytes == 2) return fn.template operator()<uint16_t>();
  fn.template operator()<uint32_t>();
}

}  // namespace

void arrange(const Arrangement& to, int64_t bytes, const void* plain, void* arranged) {
  if (to.layout == Layout::plain) {
    std::memcpy(arranged, plain, static_cast<size_t>(to.count() * bytes));
    return;
  }
  visit_bytes(bytes, [&]<class T>() {
    arrange_as(to, static_cast<const T*>(plain), static_cast<T*>(arranged));
  });
}

void write_plain(const Arrangement& from, int64_t bytes, const void* arranged, void* plain) {
  if (from.layout == Layout::plain) {
    std::memcpy(plain, arranged, static_cast<size_t>(from.count() * bytes));
    return;
  }
  visit_bytes(bytes, [&]<class T>() {
    write_plain_as(from, static_cast<const T*>(arranged), static_cast<T*>(plain));
  });
}

BlockedForm::BlockedForm(Allocator& allocator, const Arrangement& arrangement,
                         int64_t element_bytes)
    : allocator_(&allocator),
      arrangement_(arrangement),
      element_bytes_(element_bytes),
      category_(MemoryScope::current()) {
  data_ = allocator.allocate(bytes(), category_);
}

BlockedForm::~BlockedForm() {
  allocator_->deallocate(data_, bytes(), category_);
}

void BlockedForm::write_plain(void* plain) const {
  cpu::write_plain(arrangement_, element_bytes_, data_, plain);
}

const BlockedForm* blocked_form(const Tensor& x) {
  if (!x.defined() || !x.whole_storage()) return nullptr;
  // Only this backend makes forms on its device, and only of this kind.
  return static_cast<const BlockedForm*>(x.storage()->form());
}

Arrangement arrangement_of(const Tensor& x, const Arrangement& plain) {
  const BlockedForm* form = blocked_form(x);
  return form && form->arrangement().plain() == plain ? form->arrangement() : plain;
}

bool may_be_private(const Tensor& y) {
  return y.whole_storage() && y.storage()->owned();
}

ArrangedInput::ArrangedInput(Allocator& allocator, const Tensor& x, const Arrangement& wanted) {
  if (const BlockedForm* form = blocked_form(x); form && form->arrangement() == wanted) {
    data_ = form->data();
    return;
  }
  data_ = x.raw();
  if (wanted.layout == Layout::plain) return;
  const auto bytes = static_cast<int64_t>(size_of(x.dtype()));
  copy_.emplace(allocator, wanted.count() * bytes);
  arrange(wanted, bytes, data_, copy_->data());
  data_ = copy_->data();
}

ArrangedOutput::ArrangedOutput(Allocator& allocator, const Tensor& y,
                               const Arrangement& arrangement)
    : ArrangedOutput(allocator, y, arrangement, static_cast<int64_t>(size_of(y.dtype()))) {}

ArrangedOutput::ArrangedOutput(Allocator& allocator, const Tensor& y,
                               const Arrangement& arrangement, int64_t element_bytes)
    : y_(&y), arrangement_(arrangement), element_bytes_(element_bytes) {
  if (const BlockedForm* form = blocked_form(y); form && form->arrangement() == arrangement) {
    data_ = form->data();  // in place
  } else if (arrangement.layout == Layout::plain) {
    data_ = y.raw();
  } else if (arrangement.layout == Layout::blocked && may_be_private(y)) {
    form_ = std::make_unique<BlockedForm>(allocator, arrangement, element_bytes);
    data_ = form_->data();
  } else {
    scratch_.emplace(allocator, arrangement.count() * element_bytes);
    data_ = scratch_->data();
  }
}

void ArrangedOutput::finish() {
  if (form_) {
    y_->storage()->adopt(std::move(form_));
  } else if (scratch_) {
    write_plain(arrangement_, element_bytes_, data_, y_->raw());
  }
}

}  // namespace whisker::cpu
