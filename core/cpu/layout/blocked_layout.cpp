// Conversions between layouts. Blocked and plain memory both have adjacent channels: a conversion
// copies whole blocks. Planar memory needs a transpose of few channels.
#include "core/cpu/layout/blocked_layout.h"

#include "core/autograd/autograd.h"
#include "core/cpu/support/parallel.h"
#include "core/vectorize.h"

#include <algorithm>
#include <cstring>

namespace whisker::cpu {
namespace {

// One plane of one block: `width` real channels of `block`.
template <class T>
WHISKER_VECTORIZE void to_block(const T* plain, int64_t channels, int64_t width, int64_t block,
                                int64_t positions, T* blocked) {
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t c = 0; c < width; ++c) blocked[p * block + c] = plain[p * channels + c];
    for (int64_t c = width; c < block; ++c) blocked[p * block + c] = T(0);
  }
}

template <class T>
WHISKER_VECTORIZE void from_block(const T* blocked, int64_t channels, int64_t width, int64_t block,
                                  int64_t positions, T* plain) {
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t c = 0; c < width; ++c) plain[p * channels + c] = blocked[p * block + c];
  }
}

template <class T>
WHISKER_VECTORIZE void to_planes(const T* plain, int64_t channels, int64_t positions, T* planar) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t p = 0; p < positions; ++p) planar[c * positions + p] = plain[p * channels + c];
  }
}

template <class T>
WHISKER_VECTORIZE void from_planes(const T* planar, int64_t channels, int64_t positions, T* plain) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t p = 0; p < positions; ++p) plain[p * channels + c] = planar[c * positions + p];
  }
}

/// Calls fn(position in plain, position in blocked, real channels) for every plane.
template <class Fn>
void for_each_block_plane(const ImageLayout& a, Fn&& fn) {
  const int64_t blocks = a.blocks();
  const int64_t plane = a.positions * a.block;
  parallel_ranges(a.n * blocks, rows_grain(plane), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t channel = i % blocks * a.block;
      fn(i / blocks * a.positions * a.channels + channel, i * plane,
         std::min(a.block, a.channels - channel));
    }
  });
}

/// Calls fn(position) for every image: the same in plain and in planes.
template <class Fn>
void for_each_image(const ImageLayout& a, Fn&& fn) {
  const int64_t image = a.positions * a.channels;
  parallel_ranges(a.n, rows_grain(image), [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) fn(n * image);
  });
}

template <class T>
void to_layout_as(const ImageLayout& a, const T* plain, T* converted) {
  if (a.layout == Layout::blocked) {
    for_each_block_plane(a, [&](int64_t from, int64_t to, int64_t width) {
      to_block(plain + from, a.channels, width, a.block, a.positions, converted + to);
    });
  } else {
    for_each_image(
        a, [&](int64_t at) { to_planes(plain + at, a.channels, a.positions, converted + at); });
  }
}

template <class T>
void write_plain_as(const ImageLayout& a, const T* converted, T* plain) {
  if (a.layout == Layout::blocked) {
    for_each_block_plane(a, [&](int64_t to, int64_t from, int64_t width) {
      from_block(converted + from, a.channels, width, a.block, a.positions, plain + to);
    });
  } else {
    for_each_image(
        a, [&](int64_t at) { from_planes(converted + at, a.channels, a.positions, plain + at); });
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

void to_layout(const ImageLayout& to, int64_t bytes, const void* plain, void* converted) {
  if (to.layout == Layout::plain) {
    std::memcpy(converted, plain, static_cast<size_t>(to.count() * bytes));
    return;
  }
  visit_bytes(bytes, [&]<class T>() {
    to_layout_as(to, static_cast<const T*>(plain), static_cast<T*>(converted));
  });
}

void write_plain(const ImageLayout& from, int64_t bytes, const void* converted, void* plain) {
  if (from.layout == Layout::plain) {
    std::memcpy(plain, converted, static_cast<size_t>(from.count() * bytes));
    return;
  }
  visit_bytes(bytes, [&]<class T>() {
    write_plain_as(from, static_cast<const T*>(converted), static_cast<T*>(plain));
  });
}

BlockedForm::BlockedForm(Allocator& allocator, const ImageLayout& layout, int64_t element_bytes)
    : allocator_(&allocator),
      layout_(layout),
      element_bytes_(element_bytes),
      category_(MemoryScope::current()) {
  data_ = allocator.allocate(bytes(), category_);
}

BlockedForm::~BlockedForm() {
  allocator_->deallocate(data_, bytes(), category_);
}

void BlockedForm::write_plain(void* plain) const {
  cpu::write_plain(layout_, element_bytes_, data_, plain);
}

const BlockedForm* blocked_form(const Tensor& x) {
  if (!x.defined() || !x.whole_storage()) return nullptr;
  // This backend creates only this kind of private form.
  return static_cast<const BlockedForm*>(x.storage()->form());
}

ImageLayout layout_of(const Tensor& x, const ImageLayout& plain) {
  const BlockedForm* form = blocked_form(x);
  return form && form->layout().plain() == plain ? form->layout() : plain;
}

bool may_be_private(const Tensor& y) {
  return y.whole_storage() && y.storage()->owned();
}

LayoutInput::LayoutInput(Allocator& allocator, const Tensor& x, const ImageLayout& wanted) {
  if (const BlockedForm* form = blocked_form(x); form && form->layout() == wanted) {
    data_ = form->data();
    return;
  }
  data_ = x.raw();
  if (wanted.layout == Layout::plain) return;
  const auto bytes = static_cast<int64_t>(size_of(x.dtype()));
  copy_.emplace(allocator, wanted.count() * bytes);
  to_layout(wanted, bytes, data_, copy_->data());
  data_ = copy_->data();
}

LayoutOutput::LayoutOutput(Allocator& allocator, const Tensor& y, const ImageLayout& layout)
    : LayoutOutput(allocator, y, layout, static_cast<int64_t>(size_of(y.dtype()))) {}

LayoutOutput::LayoutOutput(Allocator& allocator, const Tensor& y, const ImageLayout& layout,
                           int64_t element_bytes)
    : y_(&y), layout_(layout), element_bytes_(element_bytes) {
  if (const BlockedForm* form = blocked_form(y); form && form->layout() == layout) {
    data_ = form->data();  // in place
  } else if (layout.layout == Layout::plain) {
    data_ = y.raw();
  } else if (layout.layout == Layout::blocked && may_be_private(y)) {
    form_ = std::make_unique<BlockedForm>(allocator, layout, element_bytes);
    data_ = form_->data();
  } else {
    scratch_.emplace(allocator, layout.count() * element_bytes);
    data_ = scratch_->data();
  }
}

void LayoutOutput::finish() {
  if (form_) {
    y_->storage()->adopt(std::move(form_));
  } else if (scratch_) {
    write_plain(layout_, element_bytes_, data_, y_->raw());
  }
}

}  // namespace whisker::cpu
