// Conversions between layouts. Blocked and plain memory both have adjacent channels: a conversion
// copies whole blocks. Planar memory needs a transpose of few channels.
#include "core/cpu/layout/blocked_layout.h"

#include "core/autograd/autograd.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/parallel.h"
#include "core/vectorize.h"

#include <algorithm>
#include <cstring>

namespace whisker::cpu {
namespace {

// Between plain memory and one plane of one block, with `width` real channels of `block`; or back.
template <bool Back, class T>
WHISKER_VECTORIZE void convert_block(T* plain, int64_t channels, int64_t width, int64_t block,
                                     int64_t positions, T* blocked) {
  for (int64_t p = 0; p < positions; ++p) {
    T* const from = plain + p * channels;
    T* const to = blocked + p * block;
    for (int64_t c = 0; c < width; ++c) Back ? from[c] = to[c] : to[c] = from[c];
    for (int64_t c = width; !Back && c < block; ++c) to[c] = T(0);
  }
}

template <bool Back, class T>
WHISKER_VECTORIZE void convert_image(T* plain, int64_t channels, int64_t positions, T* planar) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t p = 0; p < positions; ++p) {
      T &from = plain[p * channels + c], &to = planar[c * positions + p];
      Back ? from = to : to = from;
    }
  }
}

template <bool Back, class T>
void convert_as(const ImageLayout& a, T* plain, T* converted) {
  const int64_t image = a.positions * a.channels;
  if (a.layout == Layout::planar) {
    return parallel_each(a.n, rows_grain(image), [&](int64_t n, int) {
      convert_image<Back>(plain + n * image, a.channels, a.positions, converted + n * image);
    });
  }
  const int64_t blocks = a.blocks(), plane = a.positions * a.block;
  parallel_each(a.n * blocks, rows_grain(plane), [&](int64_t i, int) {
    const int64_t channel = i % blocks * a.block;
    convert_block<Back>(plain + i / blocks * image + channel, a.channels,
                        std::min(a.block, a.channels - channel), a.block, a.positions,
                        converted + i * plane);
  });
}

}  // namespace

void convert_layout(const ImageLayout& a, int64_t bytes, bool back, void* plain, void* converted) {
  if (a.layout == Layout::plain) {
    std::memcpy(back ? plain : converted, back ? converted : plain,
                static_cast<size_t>(a.count() * bytes));
    return;
  }
  visit_bits(bytes, [&]<class T>() {
    T *const from = static_cast<T*>(plain), *const to = static_cast<T*>(converted);
    back ? convert_as<true>(a, from, to) : convert_as<false>(a, from, to);
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
  convert_layout(layout_, element_bytes_, true, plain, data_);
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
  if (!x.defined()) return;
  if (const BlockedForm* form = blocked_form(x); form && form->layout() == wanted) {
    data_ = form->data();
    return;
  }
  data_ = x.raw();
  if (wanted.layout == Layout::plain) return;
  const auto bytes = static_cast<int64_t>(size_of(x.dtype()));
  copy_.emplace(allocator, wanted.count() * bytes);
  convert_layout(wanted, bytes, false, data_, copy_->data());
  data_ = copy_->data();
}

LayoutOutput::LayoutOutput(Allocator& allocator, const Tensor& y, const ImageLayout& layout,
                           int64_t element_bytes)
    : y_(&y), layout_(layout), element_bytes_(element_bytes) {
  if (!y.defined()) return;
  if (element_bytes_ == 0) element_bytes_ = static_cast<int64_t>(size_of(y.dtype()));
  if (const BlockedForm* form = blocked_form(y); form && form->layout() == layout) {
    data_ = form->data();  // in place
  } else if (layout.layout == Layout::plain) {
    data_ = y.raw();
  } else if (layout.layout == Layout::blocked && may_be_private(y)) {
    form_ = std::make_unique<BlockedForm>(allocator, layout, element_bytes_);
    data_ = form_->data();
  } else {
    scratch_.emplace(allocator, layout.count() * element_bytes_);
    data_ = scratch_->data();
  }
}

void LayoutOutput::finish() {
  if (form_) {
    y_->storage()->adopt(std::move(form_));
  } else if (scratch_) {
    convert_layout(layout_, element_bytes_, true, y_->raw(), data_);
  }
}

}  // namespace whisker::cpu
