// What answers to the exercises are written with: View, a tensor's shape and elements in row-major
// order. Images are (N, H, W, C), filters (out, H, W, in), as everywhere in Whisker.
#pragma once

#include <cmath>
#include <cstdio>

namespace course {

/// Thrown where an answer leaves a tensor; `whisker study grade` shows the text.
struct Stop {
  char text[200];
};

/// A tensor that belongs to the caller. x(i, j) is an element, x[k] the k-th in memory, and
/// x.extent(0) the length of the first axis. Both check that the element exists.
template <class T>
struct View {
  T* data = nullptr;
  const int* extents = nullptr;
  int rank = 0;
  const char* name = "";

  int extent(int axis) const {
    if (axis < 0 || axis >= rank) {
      stop("%s.extent(%d): expected an axis from 0 to %d", name, axis, rank - 1);
    }
    return extents[axis];
  }
  int count() const {
    int product = 1;
    for (int axis = 0; axis < rank; ++axis) product *= extents[axis];
    return product;
  }
  T& operator[](int k) const {
    if (k < 0 || k >= count()) {
      stop("%s[%d] is outside of %s, which has %d elements", name, k, name, count());
    }
    return data[k];
  }
  template <class... Index>
  T& operator()(Index... index) const {
    const int at[] = {static_cast<int>(index)..., 0};
    const int given = static_cast<int>(sizeof...(index));
    if (given != rank) {
      stop(
          "an element of %s: expected as many indices as axes, %d, got %d; %s[k] is the k-th of "
          "all",
          name, rank, given, name);
    }
    int k = 0;
    for (int axis = 0; axis < rank; ++axis) {
      if (at[axis] < 0 || at[axis] >= extents[axis]) {
        stop("index %d of axis %d of %s is outside: that axis has %d elements, from 0 on", at[axis],
             axis, name, extents[axis]);
      }
      k = k * extents[axis] + at[axis];
    }
    return data[k];
  }

 private:
  template <class... Values>
  [[noreturn]] static void stop(const char* format, Values... values) {
    Stop reason;
    std::snprintf(reason.text, sizeof reason.text, format, values...);
    throw reason;
  }
};

}  // namespace course
