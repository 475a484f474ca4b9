// Training batches some of whose JPEG files another decoder than ours decodes: the same batches,
// whichever rows those are and whatever is wrong with the files. A decoder in host memory stands in
// for nvJPEG, so that all of it but nvJPEG itself is tested without a GPU; gpu_decode_cuda_test.cpp
// has the real one.
#include "data/images/image_dataset.h"
#include "data/loader/device_loader.h"
#include "tests/support/decoded_batches.h"
#include "tests/support/finished_images.h"
#include "tests/support/test_data.h"

#include <atomic>
#include <cstdio>
#include <cstring>

#include <gtest/gtest.h>

namespace whisker {
namespace {

using test::augmented;
using test::copy_odd_images;
using test::Delivered;
using test::largest_difference;
using test::run;
using test::write_images;

/// Decodes in host memory, exactly; `offset` is added to every value, so that its work shows.
class HostJpegDecoder final : public JpegDecoder {
 public:
  struct Options {
    uint8_t offset = 0;
    bool refuses = false;  // every batch
    int narrowest = 0;     // does not accept less wide files
  };
  explicit HostJpegDecoder(Options options) : options_(options) {}

  std::string description() const override { return "host"; }
  bool accepts(std::span<const uint8_t> file) const override {
    ++asked_;
    return read_header(file).width >= options_.narrowest;
  }
  std::shared_ptr<const DecodedImages> decode(std::span<const JpegImage> images,
                                              int64_t bytes) override {
    if (options_.refuses) {
      ++refused_;
      fail(ErrorKind::device, "does not like it");
    }
    auto pixels = std::make_shared<Pixels>();
    pixels->bytes.resize(static_cast<size_t>(bytes));
    for (const JpegImage& one : images) {
      Decoded decoded;
      whisker::decode(one.bytes, {}, decoded);
      Image& image = decoded.image;
      EXPECT_EQ(image.height, one.height);
      EXPECT_EQ(image.width, one.width);
      for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(value + options_.offset);
      std::memcpy(pixels->bytes.data() + one.at, image.rgb.data(), image.rgb.size());
      ++decoded_;
    }
    return pixels;
  }
  int64_t decoded() const { return decoded_; }
  int64_t asked() const { return asked_; }
  int64_t refused() const { return refused_; }

 private:
  struct Pixels final : DecodedImages {
    std::vector<uint8_t> bytes;
    const uint8_t* memory() const override { return bytes.data(); }
  };
  Options options_;
  std::atomic<int64_t> decoded_ = 0, refused_ = 0;
  mutable std::atomic<int64_t> asked_ = 0;
};

DeviceLoaderOptions on_the_host() {
  return {.pipeline = test::image_pipeline(cpu_device)};
}

class GpuDecode : public testing::Test {
 protected:
  GpuDecode() {
    write_images(folder_);
    files_ = open_image_folder(folder_.path());
  }
  const TemporaryFolder folder_;
  ImageFolder files_;
};

TEST_F(GpuDecode, GivesTheHostsBatchesAndRefusesTheSameFiles) {
  const Delivered expected = run(files_, augmented(), {});
  EXPECT_EQ(expected.bad.size(), 3u);
  for (const double share : {0.3, 0.5, 1.0}) {
    for (const int workers : {0, 3}) {
      const auto decoder = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{});
      const Delivered got =
          run(files_, augmented(), {.decoder = decoder, .share = share, .workers = workers});
      EXPECT_EQ(largest_difference(got, expected), 0) << share;
      EXPECT_EQ(got.indices, expected.indices) << share;
      EXPECT_EQ(got.bad, expected.bad) << share;
      EXPECT_EQ(got.reasons, expected.reasons) << share;
      EXPECT_GT(decoder->decoded(), share == 1.0 ? 8 : 1) << share;
      EXPECT_EQ(got.note, "");
    }
  }
}

// A decoder whose pixels differ shows which rows it had: always the same ones.
TEST_F(GpuDecode, RowsAreTheSameWhateverTheWorkers) {
  const auto with = [&](double share, int workers) {
    const auto decoder = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{.offset = 9});
    return run(files_, augmented(), {.decoder = decoder, .share = share, .workers = workers});
  };
  const Delivered alone = with(0.5, 0);
  for (const int workers : {1, 2, 5}) EXPECT_EQ(largest_difference(with(0.5, workers), alone), 0);
  EXPECT_GT(largest_difference(with(1, 2), alone), 0);
  EXPECT_GT(largest_difference(with(0, 2), alone), 0);
}

TEST_F(GpuDecode, TheHostDecodesWhatTheDeviceRefuses) {
  const Delivered expected = run(files_, augmented(), {});
  const auto refuses = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{.refuses = true});
  const Delivered got = run(files_, augmented(), {.decoder = refuses, .share = 1, .workers = 2});
  EXPECT_EQ(largest_difference(got, expected), 0);
  EXPECT_EQ(got.bad, expected.bad);
  EXPECT_NE(got.note.find("from here on the CPU decodes all JPEG files"), std::string::npos)
      << got.note;
  const Delivered once = run(files_, augmented(), {.decoder = refuses, .share = 1, .batch = 64}, 1);
  EXPECT_NE(once.note.find("refused on the GPU and decoded by the CPU (does not like it)"),
            std::string::npos)
      << once.note;
  const auto picky = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{.narrowest = 62});
  const Delivered some = run(files_, augmented(), {.decoder = picky, .share = 1});
  EXPECT_EQ(largest_difference(some, expected), 0);
  EXPECT_GT(picky->decoded(), 0);
}

TEST_F(GpuDecode, ADeviceThatRefusesEverythingIsAskedNoMore) {
  LoaderOptions options{.batch_size = 4, .workers = 0, .max_bad = 0.5};
  const auto refuses = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{.refuses = true});
  options.jpeg_decoder = refuses;
  options.jpeg_share = 1;
  DeviceLoader loader(std::make_shared<ImageDataset>(files_, augmented()),
                      sequential_sampler(files_.size()), options, on_the_host());
  std::string notes;
  for (int epoch = 0; epoch < 20; ++epoch) {
    loader.start_epoch(epoch);
    while (loader.next()) continue;
    notes += loader.take_note();
  }
  EXPECT_EQ(refuses->refused(), 3);
  loader.set_jpeg_share(1);
  EXPECT_EQ(loader.jpeg_share(), 0);
  const auto said = notes.find("3 batches in a row were refused on the GPU (does not like it)");
  EXPECT_NE(said, std::string::npos) << notes;
  EXPECT_EQ(notes.find("in a row", said + 20), std::string::npos) << notes;
}

TEST_F(GpuDecode, ACacheAndValidationKeepTheHostsPixels) {
  ImageDatasetOptions cached = augmented();
  cached.cache.kind = CacheKind::memory;
  const auto decoder = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{.offset = 9});
  EXPECT_EQ(largest_difference(run(files_, cached, {.decoder = decoder, .share = 1}),
                               run(files_, cached, {})),
            0);
  EXPECT_EQ(decoder->decoded(), 0);
}

// Most are refused, or are no plain JPEG; whichever it is, nothing changes.
TEST_F(GpuDecode, OddImagesAreTreatedAsOnTheHost) {
  TemporaryFolder folder;
  if (!copy_odd_images(folder)) GTEST_SKIP() << "no odd_images in " << test::test_data_dir();
  const ImageFolder files = open_image_folder(folder.path());
  const Delivered expected = run(files, augmented(), {}, 1);
  const auto decoder = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{});
  const Delivered got = run(files, augmented(), {.decoder = decoder, .share = 1, .workers = 2}, 1);
  EXPECT_EQ(largest_difference(got, expected), 0);
  EXPECT_EQ(got.indices, expected.indices);
  EXPECT_EQ(got.bad, expected.bad);
  EXPECT_EQ(got.reasons, expected.reasons);
  std::printf("odd images: %lld, refused %zu, decoded elsewhere %lld\n",
              static_cast<long long>(files.size()), got.bad.size(),
              static_cast<long long>(decoder->decoded()));
  EXPECT_GT(got.bad.size(), 40u);
  EXPECT_GT(decoder->decoded(), 20);
}

// What was found out about a file holds for its bytes, not for its name.
TEST_F(GpuDecode, AFileThatIsDamagedLaterIsFound) {
  TemporaryFolder folder;
  const test::Buffer good = test::write_jpeg(test::sample_image(70, 60));
  for (const char* name : {"a/0.jpg", "a/1.jpg", "b/2.jpg", "b/3.jpg"}) folder.write(name, good);
  const ImageFolder files = open_image_folder(folder.path());
  LoaderOptions options{.batch_size = 4, .workers = 0, .max_bad = 1};
  const auto decoder = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{});
  options.jpeg_decoder = decoder;
  options.jpeg_share = 1;
  DeviceLoader loader(std::make_shared<ImageDataset>(files, augmented()), sequential_sampler(4),
                      options, on_the_host());
  const auto first_of = [&](int64_t epoch) {
    loader.start_epoch(epoch);
    return loader.next()->inputs.to_vector();
  };
  const auto before = first_of(0);
  EXPECT_EQ(first_of(0), before);  // looked at once
  EXPECT_EQ(decoder->asked(), 4);
  EXPECT_EQ(decoder->decoded(), 8);
  test::Buffer damaged = good;
  damaged.resize(good.size() / 2);
  damaged.insert(damaged.end(), {0xFF, 0xD9});
  damaged.resize(good.size(), uint8_t{0});
  folder.write("a/1.jpg", damaged);
  first_of(0);
  ASSERT_EQ(loader.bad_samples().size(), 1u);
  EXPECT_EQ(loader.bad_samples()[0].index, 1);
}

TEST_F(GpuDecode, AnEpochWithoutAShareFreesTheDecoder) {
  const auto dataset = std::make_shared<ImageDataset>(files_, augmented());
  for (const double resumed : {0.0, 0.25}) {  // where 16 cores chose no share
    LoaderOptions options{.batch_size = 4, .workers = 0, .max_bad = 0.5};
    options.jpeg_decoder = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{});
    const std::weak_ptr<JpegDecoder> decoder = options.jpeg_decoder;
    DeviceLoader loader(dataset, sequential_sampler(files_.size()), options, on_the_host());
    options.jpeg_decoder.reset();
    loader.set_jpeg_share(resumed);
    loader.start_epoch(0);
    EXPECT_EQ(decoder.expired(), resumed == 0);
    EXPECT_EQ(loader.jpeg_share(), resumed);
  }
}

TEST_F(GpuDecode, AResumedRunSaysThatItsDecoderIsMissing) {
  DeviceLoader loader(std::make_shared<ImageDataset>(files_, augmented()),
                      sequential_sampler(files_.size()), {.workers = 0}, on_the_host());
  loader.set_jpeg_share(0.5);
  EXPECT_NE(loader.take_note().find("the GPU decoded 50 % of this run's JPEG files"),
            std::string::npos);
}

}  // namespace
}  // namespace whisker
