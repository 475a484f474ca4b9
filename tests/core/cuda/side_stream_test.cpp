// Two streams that part and meet again: their order, what is left of it after an error in either,
// and which of them cuDNN enqueues to; eagerly and in captures.
#include "core/cuda/gpu/side_stream.h"

#include "core/cuda_library.h"
#include "core/error.h"

#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::cuda {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using Work = std::function<void()>;

// Bytes on the device, zeros at first.
class Bytes {
 public:
  Bytes() {
    check(cudaMalloc(&data_, count), "allocating");
    check(cudaMemset(data_, 0, count), "clearing");
    check(cudaDeviceSynchronize(), "clearing");
  }
  ~Bytes() { cudaFree(data_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  void set(int value, cudaStream_t stream) const {
    check(cudaMemsetAsync(data_, value, count, stream), "setting");
  }
  void copy(const Bytes& from, cudaStream_t stream) const {
    check(cudaMemcpyAsync(data_, from.data_, count, cudaMemcpyDeviceToDevice, stream), "copying");
  }
  std::array<unsigned char, 64> read() const {
    std::array<unsigned char, count> values{};
    check(cudaMemcpy(values.data(), data_, count, cudaMemcpyDeviceToHost), "reading");
    return values;
  }

 private:
  static constexpr size_t count = 64;
  void* data_ = nullptr;
};

// What is enqueued behind it has to wait; what is not, has long been done when it ends.
void nap(cudaStream_t stream) {
  const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  check(cudaLaunchHostFunc(stream, sleep, nullptr), "napping");
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  check(cudaStreamIsCapturing(stream, &status), "asking for a capture");
  return status != cudaStreamCaptureStatusNone;
}

class CudaSideStream : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
    context_.emplace(0);
    side_.emplace(*context_);
  }
  cudaStream_t stream() { return context_->stream(); }

  void begin_capture() {
    check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "beginning");
  }
  /// What ending the capture gives; `graph` is null where that is an error.
  cudaError_t end_capture(cudaGraph_t& graph) {
    graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream(), &graph);
    cudaGetLastError();
    return error;
  }
  void run_captured(const Work& work) {
    begin_capture();
    work();
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(end_capture(graph), cudaSuccess);
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(executable, stream()), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  }

  /// Both branches copy what is set before them, and what the side leaves is copied after them.
  void expect_order(bool captured) {
    const Bytes before, aside, beside, after;
    const auto work = [&] {
      nap(stream());
      before.set(5, stream());
      side_->run(
          [&](cudaStream_t other) {
            EXPECT_NE(other, stream());
            EXPECT_EQ(is_capturing(other), captured);
            aside.copy(before, other);
            nap(other);
            aside.set(6, other);
          },
          [&] { beside.copy(before, stream()); });
      after.copy(aside, stream());
    };
    if (captured) {
      run_captured(work);
    } else {
      work();
      context_->synchronize();
    }
    EXPECT_THAT(beside.read(), Each(5)) << "captured: " << captured;
    EXPECT_THAT(after.read(), Each(6)) << "captured: " << captured;
  }

  /// The message that leaves when one of the branches throws, after both have enqueued something;
  /// sets `aside` to 7 in the side stream.
  std::string failed(const Bytes& aside, const Bytes& beside, bool in_aside) {
    try {
      side_->run(
          [&](cudaStream_t other) {
            nap(other);
            aside.set(7, other);
            if (in_aside) fail(ErrorKind::usage, "the side's own");
          },
          [&] {
            beside.set(8, stream());
            fail(ErrorKind::usage, "the other's own");
          });
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  std::optional<Context> context_;
  std::optional<SideStream> side_;
};

TEST_F(CudaSideStream, BranchesComeAfterWhatWasThereAndBeforeWhatFollows) {
  for (const bool captured : {false, true, true, false}) expect_order(captured);
}

TEST_F(CudaSideStream, AnErrorInABranchLeavesTheOrder) {
  for (const bool in_aside : {true, false}) {
    const Bytes aside, beside, after;
    EXPECT_EQ(failed(aside, beside, in_aside), in_aside ? "the side's own" : "the other's own");
    after.copy(aside, stream());
    context_->synchronize();
    EXPECT_THAT(after.read(), Each(7)) << "not joined; in the side: " << in_aside;
    EXPECT_THAT(beside.read(), Each(in_aside ? 0 : 8));
    expect_order(false);
  }
}

TEST_F(CudaSideStream, AnErrorInABranchLetsTheCaptureEnd) {
  for (const bool in_aside : {true, false}) {
    const Bytes aside, beside;
    begin_capture();
    EXPECT_EQ(failed(aside, beside, in_aside), in_aside ? "the side's own" : "the other's own");
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(end_capture(graph), cudaSuccess) << "not joined; in the side: " << in_aside;
    EXPECT_NE(graph, nullptr);
    if (graph) cudaGraphDestroy(graph);
    EXPECT_FALSE(is_capturing(stream()));
    for (const bool captured : {false, true}) expect_order(captured);
  }
}

// Waiting is not allowed in a capture, and breaks it: then there is nothing left to join.
TEST_F(CudaSideStream, ABrokenCaptureLeavesTheStreamsUsable) {
  for (const bool in_aside : {true, false}) {
    cudaStream_t side = nullptr;
    begin_capture();
    try {
      side_->run(
          [&](cudaStream_t other) {
            side = other;
            if (in_aside) check(cudaStreamSynchronize(other), "waiting in the side");
          },
          [&] { check(cudaStreamSynchronize(stream()), "waiting in the other"); });
      ADD_FAILURE() << "a capture was waited for";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr(in_aside ? "waiting in the side" : "waiting in the other"));
    }
    cudaGraph_t graph = nullptr;
    EXPECT_NE(end_capture(graph), cudaSuccess);
    EXPECT_EQ(graph, nullptr);
    EXPECT_FALSE(is_capturing(stream()));
    EXPECT_FALSE(is_capturing(side));
    for (const bool captured : {false, true}) expect_order(captured);
  }
}

TEST_F(CudaSideStream, CudnnGoesAsideAndComesBack) {
  const auto cudnn_stream = [&] {
    cudaStream_t now = nullptr;
    EXPECT_EQ(cudnnGetStream(context_->cudnn(), &now), CUDNN_STATUS_SUCCESS);
    return now;
  };
  EXPECT_EQ(cudnn_stream(), stream());
  side_->run([&](cudaStream_t other) { EXPECT_EQ(cudnn_stream(), other); },
             [&] { EXPECT_EQ(cudnn_stream(), stream()); });
  EXPECT_EQ(cudnn_stream(), stream());
  const Bytes aside, beside;
  for (const bool in_aside : {true, false}) {
    failed(aside, beside, in_aside);
    EXPECT_EQ(cudnn_stream(), stream()) << "after an error; in the side: " << in_aside;
  }
}

}  // namespace
}  // namespace whisker::cuda
