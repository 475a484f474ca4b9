// The least time for recurrent layers whose steps wait for each other: see Note [Sequential floor].
#pragma once

#include "core/backend/geometry.h"
#include "core/tensor/tensor.h"

namespace whisker::bench {

// Note [Sequential floor]
// Step t of a layer needs step t - 1 of it and step t of the layer below. Were nothing else in the
// way, all layers would run at once, each one step behind the one below it: a wavefront of
// T + layers - 1 steps forward, and as many backward. In one of them every layer multiplies its
// state (N, hidden) by W_hh, and all layers but the first their input by W_ih; the first layer's
// input product, the weights' gradients and the update are left out, as they wait for nothing. A
// step takes at least its operations at the rate of large products, and at least one hand-over: the
// time from one kernel to the next that reads what it wrote. So
//   floor = 2 (T + layers - 1) max(operations / rate, hand-over).
// A kernel that stays on the GPU for all steps and hands over in another way may go below.
struct SequentialFloor {
  double operations = 0;    ///< of a step of the wavefront, two per multiply-add
  double handover_us = 0;   ///< measured over a captured chain of tiny kernels
  double milliseconds = 0;  ///< forward and backward
};

/// Of `g` without lengths on `device`, which captures and whose large products reach `tflops` 1e12
/// operations per second; measures the hand-over.
SequentialFloor sequential_floor(Device device, const RecurrentGeometry& g, double tflops);

}  // namespace whisker::bench
