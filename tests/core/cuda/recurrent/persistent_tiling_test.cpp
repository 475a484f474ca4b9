// How persistent recurrent kernels are cut, for described GPUs.
#include "core/cuda/recurrent/persistent/persistent_recurrent.h"

#include <gtest/gtest.h>

namespace whisker::cuda {
namespace {

cudaDeviceProp described(int major, int multiprocessors, size_t shared_bytes) {
  cudaDeviceProp gpu{};
  gpu.major = major;
  gpu.multiProcessorCount = multiprocessors;
  gpu.sharedMemPerBlockOptin = shared_bytes;
  return gpu;
}
const cudaDeviceProp h200 = described(9, 132, 232448);

RecurrentGeometry lstm(int64_t batch, int64_t hidden, DType dtype) {
  return {.kind = RecurrentKind::lstm,
          .steps = 128,
          .batch = batch,
          .features = 256,
          .hidden = hidden,
          .layers = 2,
          .dtype = dtype};
}

TEST(PersistentTiling, TwoLayersFillTheGpuAsAWavefront) {
  const RecurrentGeometry g = lstm(64, 512, DType::bf16);
  const auto tiling = persistent_tiling(g, true, h200);
  ASSERT_TRUE(tiling);
  EXPECT_EQ(tiling->rows, 32);
  EXPECT_EQ(tiling->units, 16);
  EXPECT_EQ(tiling->cells, 2);
  EXPECT_LE(persistent_blocks({.geometry = g, .tiling = *tiling}, 2), 132);
  EXPECT_LE(persistent_forward_bytes(g, *tiling, true), h200.sharedMemPerBlockOptin);
}

TEST(PersistentTiling, SmallTilesComeFirst) {
  EXPECT_EQ(persistent_tiling(lstm(64, 512, DType::bf16), false, h200)->rows, 16);
  EXPECT_EQ(persistent_tiling(lstm(64, 512, DType::f32), false, h200)->rows, 32);
  EXPECT_EQ(persistent_tiling(lstm(128, 512, DType::f32), false, h200)->rows, 64);
}

TEST(PersistentTiling, WhatDoesNotFitIsNotTaken) {
  const RecurrentGeometry fits = lstm(64, 512, DType::bf16);
  EXPECT_FALSE(persistent_tiling(fits, false, described(8, 108, 166912))) << "an older GPU";
  EXPECT_FALSE(persistent_tiling(fits, false, described(12, 170, 101376))) << "shared memory";
  EXPECT_FALSE(persistent_tiling(fits, true, described(9, 100, 232448))) << "two layers at once";
  EXPECT_TRUE(persistent_tiling(fits, false, described(9, 100, 232448)));
  EXPECT_FALSE(persistent_tiling(lstm(512, 512, DType::bf16), false, h200)) << "batch";
  EXPECT_FALSE(persistent_tiling(lstm(64, 520, DType::bf16), false, h200)) << "hidden";
  RecurrentGeometry other = fits;
  other.projection = 64;
  EXPECT_FALSE(persistent_tiling(other, false, h200)) << "projection";
  other = fits;
  other.steps = int64_t{1} << 23;
  EXPECT_FALSE(persistent_tiling(other, false, h200)) << "more arrivals than counters count";
}

}  // namespace
}  // namespace whisker::cuda
