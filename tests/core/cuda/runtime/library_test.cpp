// Why CUDA cannot be used, in words that help; and that the library opens without a GPU, so that a
// missing symbol is found where there is none.
#include "core/nvidia/cuda_library.h"
#include "core/nvidia/cuda_usable.h"
#include "tests/support/error_of.h"

#include <fstream>
#include <functional>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const CudaFacts usable{
    .built = true, .driver = true, .driver_version = 13000, .needed_version = 13000, .count = 1};

std::string why(const std::function<void(CudaFacts&)>& change) {
  CudaFacts facts = usable;
  change(facts);
  return why_no_cuda(facts);
}

TEST(WhyNoCuda, NamesTheCauseAndTheRemedy) {
  EXPECT_EQ(why([](CudaFacts&) {}), "");
  EXPECT_EQ(why([](CudaFacts& f) { f.built = false; }),
            "this build has no CUDA backend. Configure with -DWHISKER_CUDA=ON, or use device=cpu.");
  EXPECT_EQ(why([](CudaFacts& f) { f.driver = false; }),
            "no NVIDIA driver found (libcuda.so.1). Install it, or use device=cpu.");
  EXPECT_EQ(why([](CudaFacts& f) {
              f.driver = false;
              f.nouveau = true;
            }),
            "the GPU is held by the Nouveau driver, which has no CUDA. Install NVIDIA's driver.");
  EXPECT_EQ(why([](CudaFacts& f) { f.driver_version = 12040; }),
            "the NVIDIA driver is too old: it supports CUDA 12.4, this build needs CUDA 13.0. "
            "Update the driver.");
  EXPECT_EQ(why([](CudaFacts& f) { f.driver_error = "error 802: system not yet initialized"; }),
            "the NVIDIA driver did not start (error 802: system not yet initialized). See "
            "nvidia-smi.");
  EXPECT_EQ(why([](CudaFacts& f) {
              f.count = 0;
              f.visible_devices = "";
            }),
            "CUDA_VISIBLE_DEVICES='' hides every GPU. Unset it.");
  EXPECT_EQ(why([](CudaFacts& f) { f.count = 0; }),
            "the NVIDIA driver finds no GPU. See nvidia-smi, or use device=cpu.");
}

TEST(WhyNoCuda, AnOlderDriverOfTheSameMajorVersionServes) {
  EXPECT_EQ(why([](CudaFacts& f) { f.needed_version = 13020; }), "");
  EXPECT_EQ(why([](CudaFacts& f) { f.driver_version = 13010; }), "");
}

// A machine without a GPU, or with one that was hidden on purpose, gets no word about it.
TEST(CudaIsExpected, WhereTheDriverOffersAGpuOrBroke) {
  const auto expected = [](const std::function<void(CudaFacts&)>& change) {
    CudaFacts facts = usable;
    change(facts);
    return cuda_is_expected(facts);
  };
  EXPECT_TRUE(expected([](CudaFacts&) {}));
  EXPECT_TRUE(expected([](CudaFacts& f) { f.driver_version = 12040; }));
  EXPECT_TRUE(expected([](CudaFacts& f) {
    f.count = 0;
    f.driver_error = "error 999: unknown";
  }));
  EXPECT_FALSE(expected([](CudaFacts& f) { f.built = false; }));
  EXPECT_FALSE(expected([](CudaFacts& f) {
    f.count = 0;
    f.driver = false;
  }));
  EXPECT_FALSE(expected([](CudaFacts& f) {
    f.count = 0;
    f.visible_devices = "";
  }));
}

TEST(CudaDevices, AMissingOneSaysWhy) {
  const Device far{DeviceKind::cuda, 63};
  EXPECT_THAT(
      message_of(ErrorKind::device, [&] { backend_of(far); }),
      AllOf(HasSubstr("device cuda:63: "), AnyOf(HasSubstr(why_no_cuda()), HasSubstr("visible"))));
}

TEST(CudaLibrary, OpensWithoutAGpu) {
  if (!cuda_facts().built) GTEST_SKIP() << "skipped: built without CUDA";
  const CudaInterface& library = cuda_interface();
  EXPECT_NE(library.make_backend, nullptr);
}

TEST(CudaLibrary, ThatIsStaleIsRefused) {
  if (!cuda_facts().built) GTEST_SKIP() << "skipped: built without CUDA";
  CudaInterface offered = cuda_interface();
  EXPECT_NO_THROW(check_built_together(&offered));
  const auto refusal = [&] {
    return message_of(ErrorKind::device, [&] { check_built_together(&offered); });
  };
  ++offered.contract;
  EXPECT_THAT(refusal(), HasSubstr("built from other sources than the program"));
  offered.version = "0.0";
  EXPECT_THAT(refusal(), HasSubstr("is of Whisker 0.0"));
  EXPECT_THAT(message_of(ErrorKind::device, [] { check_built_together(nullptr); }),
              HasSubstr("is of Whisker ?"));
}

// Half a gigabyte: a start that multiplies nothing large does without it.
TEST(CudaLibrary, OpensWithoutCublasLt) {
  if (!cuda_facts().built) GTEST_SKIP() << "skipped: built without CUDA";
  cuda_interface();
  std::ifstream maps("/proc/self/maps");
  const std::string loaded{std::istreambuf_iterator<char>(maps), {}};
  ASSERT_THAT(loaded, HasSubstr("libwhisker_cuda.so"));
  if (loaded.find("libcublasLt") == std::string::npos) return;
  // Within a process that ran other tests: one that multiplied asked for it, or a part of cuDNN
  // that opens it by itself is there.
  const bool by_cudnn = loaded.find("libcudnn_engines_precompiled") != std::string::npos ||
                        loaded.find("libcudnn_adv") != std::string::npos;
  EXPECT_TRUE(by_cudnn || cuda_start_times({DeviceKind::cuda, 0}).cublas_lt > 0);
}

}  // namespace
}  // namespace whisker::test
