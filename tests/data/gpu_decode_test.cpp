// Training batches some of whose JPEG files another decoder than ours decodes: the same batches,
// whichever rows those are and whatever is wrong with the files. A decoder in host memory stands in
// for nvJPEG, so that all of it but nvJPEG itself is tested without a GPU; then the real one.
#include "core/backend.h"
#include "core/error.h"
#include "data/device_loader.h"
#include "data/exif.h"
#include "data/picture_dataset.h"
#include "data/plain_jpeg.h"
#include "support/devices.h"
#include "support/picture_files.h"
#include "support/test_data.h"
#include "temporary_folder.h"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>

#include <gtest/gtest.h>

namespace whisker {
namespace {

/// Decodes in host memory, exactly; `offset` is added to every value, so that its work shows.
class HostJpegDecoder final : public JpegDecoder {
 public:
  struct Options {
    uint8_t offset = 0;
    bool refuses = false;  // every batch
    int narrowest = 0;     // does not accept less wide files
  };
  explicit HostJpegDecoder(Options options) : options_(options) {}

  std::string description() override { return "host"; }
  bool accepts(std::span<const uint8_t> file) override {
    ++asked_;
    return read_header(file).width >= options_.narrowest;
  }
  std::shared_ptr<const DecodedPictures> decode(std::span<const JpegPicture> pictures,
                                                int64_t bytes) override {
    if (options_.refuses) {
      ++refused_;
      return nullptr;
    }
    auto pixels = std::make_shared<Pixels>();
    pixels->bytes.resize(static_cast<size_t>(bytes));
    for (const JpegPicture& one : pictures) {
      Decoded decoded;
      whisker::decode(one.bytes, {}, decoded);
      Picture& picture = decoded.picture;
      EXPECT_EQ(picture.height, one.height);
      EXPECT_EQ(picture.width, one.width);
      make_upright(picture, one.orientation, decoded.scratch);
      for (uint8_t& value : picture.rgb) value = static_cast<uint8_t>(value + options_.offset);
      std::memcpy(pixels->bytes.data() + one.at, picture.rgb.data(), picture.rgb.size());
      ++decoded_;
    }
    return pixels;
  }
  std::string refusal() const override { return options_.refuses ? "does not like it" : ""; }
  int64_t decoded() const { return decoded_; }
  int64_t asked() const { return asked_; }
  int64_t refused() const { return refused_; }

 private:
  struct Pixels final : DecodedPictures {
    std::vector<uint8_t> bytes;
    const uint8_t* memory() const override { return bytes.data(); }
  };
  Options options_;
  std::atomic<int64_t> decoded_ = 0, asked_ = 0, refused_ = 0;
};

void write(const TemporaryFolder& folder, const std::string& name, const test::Buffer& bytes) {
  folder.write(name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// Every orientation, and one of each kind that a device does not decode or nobody can.
void write_pictures(const TemporaryFolder& folder) {
  int number = 0;
  const auto name = [&](const char* kind, const char* ending = "jpg") {
    return fmt::format("{}/{:03}_{}.{}", number++ % 2 == 0 ? 'a' : 'b', number, kind, ending);
  };
  for (int orientation = 0; orientation <= 8; ++orientation) {
    for (const int samples : {1, 2}) {
      const Picture picture = test::sample_picture(60 + 3 * orientation, 90 - 4 * orientation);
      write(folder, name("plain"),
            test::write_jpeg(picture,
                             {.h_samples = 2, .v_samples = samples, .orientation = orientation}));
    }
  }
  const Picture picture = test::sample_picture(70, 80);
  write(folder, name("gray"), test::write_jpeg(picture, {.color = test::JpegColor::gray}));
  write(folder, name("cmyk"), test::write_jpeg(picture, {.color = test::JpegColor::cmyk}));
  write(folder, name("progressive"),
        test::write_jpeg(picture, {.progressive = true, .orientation = 6}));
  write(folder, name("named", "png"), test::write_jpeg(picture));
  write(folder, name("bmp", "bmp"), test::write_bmp(picture));
  test::Buffer cut = test::write_jpeg(picture);
  cut.resize(cut.size() / 2);
  write(folder, name("cut"), cut);
  test::Buffer large = test::write_jpeg(picture);
  const uint8_t frame[] = {0xFF, 0xC0};
  const auto at = std::search(large.begin(), large.end(), frame, frame + 2);
  std::fill(at + 5, at + 9, uint8_t{0xFF});  // 65535x65535
  write(folder, name("huge"), large);
  write(folder, name("empty"), {});
}

PictureDatasetOptions training(bool fast = false) {
  PictureDatasetOptions options{
      .preprocess = {.size = {24, 32}},
      .augment =
          AugmentConfig{
              .random_resized_crop = true, .flip_horizontal = 0.5, .rotation = 10, .contrast = 0.2},
      .seed = 3,
      .fast_decode = fast};
  return options;
}

struct Delivered {
  std::vector<std::vector<double>> images;
  std::vector<std::vector<int64_t>> indices;
  std::vector<int64_t> bad;
  std::vector<std::string> reasons;
  std::string note;
};

struct How {
  Device device = cpu_device;
  std::shared_ptr<JpegDecoder> decoder = {};
  double share = 0;
  int workers = 0;
  int64_t batch = 8;
};

Delivered run(const ImageFolder& files, const PictureDatasetOptions& data, const How& how,
              int epochs = 2) {
  const auto dataset = std::make_shared<PictureDataset>(files, data);
  LoaderOptions options{.batch_size = how.batch, .workers = how.workers, .max_bad = 1};
  options.jpeg_decoder = how.decoder;
  options.jpeg_share = how.share;
  DeviceLoader loader(dataset, shuffle_sampler(files.size(), {.seed = 1}), options,
                      {.device = how.device});
  Delivered result;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    loader.start_epoch(epoch);
    while (const auto batch = loader.next()) {
      result.images.push_back(batch->inputs.to_vector());
      result.indices.push_back(batch->indices);
    }
  }
  for (const BadSample& bad : loader.bad_samples()) {
    result.bad.push_back(bad.index);
    result.reasons.push_back(bad.reason);
  }
  result.note = loader.take_note();
  return result;
}

double largest_difference(const Delivered& a, const Delivered& b) {
  double most = 0;
  EXPECT_EQ(a.images.size(), b.images.size());
  for (size_t i = 0; i < std::min(a.images.size(), b.images.size()); ++i) {
    EXPECT_EQ(a.images[i].size(), b.images[i].size());
    for (size_t k = 0; k < std::min(a.images[i].size(), b.images[i].size()); ++k) {
      most = std::max(most, std::abs(a.images[i][k] - b.images[i][k]));
    }
  }
  return most;
}

TEST(GpuDecode, GivesTheHostsBatchesAndRefusesTheSameFiles) {
  TemporaryFolder folder;
  write_pictures(folder);
  const ImageFolder files = open_image_folder(folder.path());
  const Delivered expected = run(files, training(), {});
  EXPECT_EQ(expected.bad.size(), 3u);
  for (const double share : {0.3, 0.5, 1.0}) {
    for (const int workers : {0, 3}) {
      const auto decoder = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{});
      const Delivered got =
          run(files, training(), {.decoder = decoder, .share = share, .workers = workers});
      EXPECT_EQ(largest_difference(got, expected), 0) << share;
      EXPECT_EQ(got.indices, expected.indices) << share;
      EXPECT_EQ(got.bad, expected.bad) << share;
      EXPECT_EQ(got.reasons, expected.reasons) << share;
      EXPECT_GT(decoder->decoded(), share == 1.0 ? 30 : 5) << share;
      EXPECT_EQ(got.note, "");
    }
  }
}

// A decoder whose pixels differ shows which rows it had: always the same ones.
TEST(GpuDecode, RowsAreTheSameWhateverTheWorkers) {
  TemporaryFolder folder;
  write_pictures(folder);
  const ImageFolder files = open_image_folder(folder.path());
  const auto with = [&](double share, int workers) {
    const auto decoder = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{.offset = 9});
    return run(files, training(), {.decoder = decoder, .share = share, .workers = workers});
  };
  const Delivered alone = with(0.5, 0);
  for (const int workers : {1, 2, 5}) EXPECT_EQ(largest_difference(with(0.5, workers), alone), 0);
  EXPECT_GT(largest_difference(with(1, 2), alone), 0);
  EXPECT_GT(largest_difference(with(0, 2), alone), 0);
}

TEST(GpuDecode, TheHostDecodesWhatTheDeviceRefuses) {
  TemporaryFolder folder;
  write_pictures(folder);
  const ImageFolder files = open_image_folder(folder.path());
  const Delivered expected = run(files, training(), {});
  const auto refuses = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{.refuses = true});
  const Delivered got = run(files, training(), {.decoder = refuses, .share = 1, .workers = 2});
  EXPECT_EQ(largest_difference(got, expected), 0);
  EXPECT_EQ(got.bad, expected.bad);
  EXPECT_NE(got.note.find("refused on the GPU and decoded by the CPU (does not like it)"),
            std::string::npos)
      << got.note;
  EXPECT_NE(got.note.find("from here on the CPU decodes all JPEG files"), std::string::npos)
      << got.note;
  const auto picky = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{.narrowest = 75});
  const Delivered some = run(files, training(), {.decoder = picky, .share = 1});
  EXPECT_EQ(largest_difference(some, expected), 0);
  EXPECT_GT(picky->decoded(), 0);
}

TEST(GpuDecode, ADeviceThatRefusesEverythingIsAskedNoMore) {
  TemporaryFolder folder;
  write_pictures(folder);
  const ImageFolder files = open_image_folder(folder.path());
  LoaderOptions options{.batch_size = 4, .workers = 0, .max_bad = 0.5};
  const auto refuses = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{.refuses = true});
  options.jpeg_decoder = refuses;
  options.jpeg_share = 1;
  for (const bool searches : {false, true}) {
    DeviceLoader loader(std::make_shared<PictureDataset>(files, training()),
                        sequential_sampler(files.size()), options, {.find_jpeg_share = searches});
    const int64_t before = refuses->refused();
    std::string notes;
    for (int epoch = 0; epoch < 20; ++epoch) {
      loader.start_epoch(epoch);
      while (loader.next()) continue;
      notes += loader.take_note();
    }
    EXPECT_EQ(refuses->refused() - before, 3);
    EXPECT_EQ(loader.jpeg_share(), 0);
    const auto said = notes.find("3 batches in a row were refused on the GPU (does not like it)");
    EXPECT_NE(said, std::string::npos) << notes;
    EXPECT_EQ(notes.find("in a row", said + 20), std::string::npos) << notes;
    loader.set_jpeg_share(1);
    EXPECT_EQ(loader.jpeg_share(), 0);
  }
}

TEST(GpuDecode, ACacheAndValidationKeepTheHostsPixels) {
  TemporaryFolder folder;
  write_pictures(folder);
  const ImageFolder files = open_image_folder(folder.path());
  PictureDatasetOptions cached = training();
  cached.cache.kind = CacheKind::memory;
  const auto decoder = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{.offset = 9});
  EXPECT_EQ(largest_difference(run(files, cached, {.decoder = decoder, .share = 1}),
                               run(files, cached, {})),
            0);
  EXPECT_EQ(decoder->decoded(), 0);
}

/// The collection of odd pictures in two class folders; false where it is not there.
bool copy_odd_images(const TemporaryFolder& folder) {
  const auto root = test::test_data_dir() / "odd_images";
  if (!std::filesystem::exists(root)) return false;
  int number = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string ending = entry.path().extension().string();
    if (!entry.is_regular_file() || ending == ".tsv") continue;
    const std::string name = fmt::format("{}/{:04}{}", number % 2 == 0 ? 'a' : 'b', number, ending);
    ++number;
    write(folder, name, test::read_bytes(entry.path()));
  }
  return true;
}

// Most are refused, or are no plain JPEG; whichever it is, nothing changes.
TEST(GpuDecode, OddPicturesAreTreatedAsOnTheHost) {
  TemporaryFolder folder;
  if (!copy_odd_images(folder)) GTEST_SKIP() << "no odd_images in " << test::test_data_dir();
  const ImageFolder files = open_image_folder(folder.path());
  const Delivered expected = run(files, training(), {}, 1);
  const auto decoder = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{});
  const Delivered got = run(files, training(), {.decoder = decoder, .share = 1, .workers = 2}, 1);
  EXPECT_EQ(largest_difference(got, expected), 0);
  EXPECT_EQ(got.indices, expected.indices);
  EXPECT_EQ(got.bad, expected.bad);
  EXPECT_EQ(got.reasons, expected.reasons);
  std::printf("odd pictures: %lld, refused %zu, decoded elsewhere %lld\n",
              static_cast<long long>(files.size()), got.bad.size(),
              static_cast<long long>(decoder->decoded()));
  EXPECT_GT(got.bad.size(), 40u);
  EXPECT_GT(decoder->decoded(), 20);
}

// What was found out about a file holds for its bytes, not for its name.
TEST(GpuDecode, AFileThatIsDamagedLaterIsFound) {
  TemporaryFolder folder;
  const test::Buffer good = test::write_jpeg(test::sample_picture(70, 60), {.orientation = 6});
  for (const char* name : {"a/0.jpg", "a/1.jpg", "b/2.jpg", "b/3.jpg"}) write(folder, name, good);
  const ImageFolder files = open_image_folder(folder.path());
  LoaderOptions options{.batch_size = 4, .workers = 0, .max_bad = 1};
  const auto decoder = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{});
  options.jpeg_decoder = decoder;
  options.jpeg_share = 1;
  DeviceLoader loader(std::make_shared<PictureDataset>(files, training()), sequential_sampler(4),
                      options, {});
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
  write(folder, "a/1.jpg", damaged);
  first_of(0);
  ASSERT_EQ(loader.bad_samples().size(), 1u);
  EXPECT_EQ(loader.bad_samples()[0].index, 1);
}

TEST(GpuDecode, ShareIsSearchedAndSaidOnce) {
  TemporaryFolder folder;
  write_pictures(folder);
  const ImageFolder files = open_image_folder(folder.path());
  const auto dataset = std::make_shared<PictureDataset>(files, training());
  LoaderOptions options{.batch_size = 4, .workers = 0, .max_bad = 0.5};
  options.jpeg_decoder = std::make_shared<HostJpegDecoder>(HostJpegDecoder::Options{});
  DeviceLoader loader(dataset, shuffle_sampler(files.size(), {.seed = 1}), options,
                      {.find_jpeg_share = true});
  EXPECT_LT(loader.jpeg_share(), 0);
  std::string notes;
  for (int epoch = 0; epoch < 100 && loader.jpeg_share() < 0; ++epoch) {
    loader.start_epoch(epoch);
    while (loader.next()) continue;
    notes += loader.take_note();
  }
  EXPECT_GE(loader.jpeg_share(), 0);
  EXPECT_EQ(notes.find("data.gpu_decode: "), 0u) << notes;
  EXPECT_NE(notes.find("pictures/s"), std::string::npos) << notes;
  EXPECT_EQ(loader.take_note(), "");
  loader.set_jpeg_share(0.25);  // as a resumed run does
  EXPECT_EQ(loader.jpeg_share(), 0.25);
}

TEST(GpuDecode, AResumedRunSaysThatItsDecoderIsMissing) {
  TemporaryFolder folder;
  write_pictures(folder);
  const ImageFolder files = open_image_folder(folder.path());
  DeviceLoader loader(std::make_shared<PictureDataset>(files, training()),
                      sequential_sampler(files.size()), {.workers = 0}, {});
  loader.set_jpeg_share(0.5);
  EXPECT_NE(loader.take_note().find("the GPU decoded 50 % of this run's JPEG files"),
            std::string::npos);
}

// --- nvJPEG itself ---------------------------------------------------------------------------

constexpr Device gpu{DeviceKind::cuda, 0};

/// Null, with the test skipped, where it cannot be had.
std::shared_ptr<JpegDecoder> nvjpeg(std::string& why) {
  if (cuda_device_count() == 0) {
    why = "skipped: no GPU (" + why_no_cuda() + ")";
    return nullptr;
  }
  auto decoder = backend_of(gpu).make_jpeg_decoder(why);
  if (decoder && decoder->description().empty()) {
    why = decoder->refusal();
    decoder.reset();
  }
  if (!decoder) why = "skipped: no nvJPEG (" + why + ")";
  return decoder;
}

struct Differences {
  double mean = 0;
  int most = 0;
  double beyond_sixteen = 0;  // share of the values
};

/// Between the device's pixels, which record `row` of a one-picture batch would read, and ours.
Differences differences(const std::vector<uint8_t>& got, const Picture& expected) {
  Differences result;
  for (size_t i = 0; i < got.size(); ++i) {
    const int difference = std::abs(int{got[i]} - int{expected.rgb[i]});
    result.mean += difference;
    result.most = std::max(result.most, difference);
    result.beyond_sixteen += difference > 16;
  }
  result.mean /= static_cast<double>(got.size());
  result.beyond_sixteen /= static_cast<double>(got.size());
  return result;
}

// Real photographs, given each of the orientations in turn. Both decoders compute the inverse DCT
// and the colours with errors of about a level, and interpolate chroma differently: against a
// libjpeg that repeats chroma samples ours differs by up to 1.2 levels in the mean over such a
// picture, with 0.7 % of the values off by more than 16. Twice that, or so, is the tolerance.
TEST(GpuDecodeCuda, PixelsAreTheHostsInEveryOrientation) {
  std::string why;
  const auto decoder = nvjpeg(why);
  if (!decoder) GTEST_SKIP() << why;
  const auto root = test::test_data_dir() / "cats_dogs_original" / "cat";
  std::vector<std::vector<uint8_t>> files;
  if (std::filesystem::exists(root)) {
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      if (files.size() < 24) files.push_back(test::read_bytes(entry.path()));
    }
  }
  for (int i = 0; i < 24; ++i) {
    files.push_back(test::write_jpeg(test::sample_picture(200 + 9 * i, 180 + 7 * i),
                                     {.h_samples = 1 + i % 2, .v_samples = 1 + i % 4 / 3}));
  }
  std::vector<JpegPicture> pictures;
  std::vector<size_t> which;
  std::vector<std::string> plain(files.size());
  int64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    plain[i] = plain_jpeg(files[i]).value_or("");
    const std::span file(reinterpret_cast<const uint8_t*>(plain[i].data()), plain[i].size());
    const PictureHeader header = read_header(files[i]);
    if (header.orientation != 1 || file.empty() || !decoder->accepts(file)) continue;
    pictures.push_back({.bytes = file,
                        .height = header.height,
                        .width = header.width,
                        .orientation = static_cast<int>(i % 8) + 1,
                        .at = bytes});
    bytes += int64_t{3} * header.height * header.width + 256;
    which.push_back(i);
  }
  std::printf("%s accepts %zu of %zu files\n", decoder->description().c_str(), pictures.size(),
              files.size());
  ASSERT_GT(pictures.size(), files.size() / 2);
  for (int round = 0; round < 3; ++round) {  // memory and states are used again
    const auto decoded = decoder->decode(pictures, bytes);
    ASSERT_TRUE(decoded) << decoder->refusal();
    Differences worst;
    for (size_t i = 0; i < pictures.size(); ++i) {
      Decoded ours;
      decode(files[which[i]], {}, ours);
      make_upright(ours.picture, pictures[i].orientation, ours.scratch);
      std::vector<uint8_t> got(ours.picture.rgb.size());
      backend_of(gpu).download(decoded->memory() + pictures[i].at, got.data(), std::ssize(got));
      const Differences found = differences(got, ours.picture);
      EXPECT_LT(found.mean, 2) << "file " << which[i] << " orientation " << pictures[i].orientation;
      EXPECT_LT(found.beyond_sixteen, 0.02) << "file " << which[i];
      worst.mean = std::max(worst.mean, found.mean);
      worst.most = std::max(worst.most, found.most);
      worst.beyond_sixteen = std::max(worst.beyond_sixteen, found.beyond_sixteen);
    }
    std::printf(
        "round %d: largest mean difference %.3f levels, largest %d, beyond 16 levels %.4f\n", round,
        worst.mean, worst.most, worst.beyond_sixteen);
  }
}

// The same files, bad ones and replacements; values differ by what the decoders do, which for such
// small pictures full of edges is up to 3.2 levels in the mean (see above).
TEST(GpuDecodeCuda, TrainingBatchesAreTheHostsWithinADecodersError) {
  std::string why;
  const auto decoder = nvjpeg(why);
  if (!decoder) GTEST_SKIP() << why;
  TemporaryFolder folder;
  write_pictures(folder);
  const ImageFolder files = open_image_folder(folder.path());
  const Delivered expected = run(files, training(), {.device = gpu});
  for (const double share : {0.5, 1.0}) {
    const Delivered got = run(files, training(),
                              {.device = gpu, .decoder = decoder, .share = share, .workers = 3}, 6);
    Delivered begun = got;
    begun.images.resize(expected.images.size());
    double sum = 0;
    int64_t values = 0;
    for (size_t i = 0; i < begun.images.size(); ++i) {
      for (size_t k = 0; k < begun.images[i].size(); ++k, ++values) {
        sum += std::abs(begun.images[i][k] - expected.images[i][k]);
      }
    }
    // Values are levels / 255.
    std::printf("share %.1f: mean difference %.4f, largest %.3f; note: %s\n", share,
                sum / static_cast<double>(values), largest_difference(begun, expected),
                got.note.c_str());
    EXPECT_LT(sum / static_cast<double>(values), 4.0 / 255);
    EXPECT_GT(sum, 0) << "nothing was decoded by nvJPEG";
    EXPECT_EQ(got.bad, expected.bad);
    EXPECT_EQ(got.reasons, expected.reasons);
    EXPECT_EQ(got.note, "") << "nvJPEG refused what accepts() let through";
  }
}

TEST(GpuDecodeCuda, OddPicturesAreTreatedAsOnTheHost) {
  std::string why;
  const auto decoder = nvjpeg(why);
  if (!decoder) GTEST_SKIP() << why;
  TemporaryFolder folder;
  if (!copy_odd_images(folder)) GTEST_SKIP() << "no odd_images in " << test::test_data_dir();
  const ImageFolder files = open_image_folder(folder.path());
  const Delivered expected = run(files, training(), {.device = gpu}, 1);
  const Delivered got =
      run(files, training(), {.device = gpu, .decoder = decoder, .share = 1, .workers = 3}, 1);
  EXPECT_EQ(got.indices, expected.indices);
  EXPECT_EQ(got.bad, expected.bad);
  EXPECT_EQ(got.reasons, expected.reasons);
  EXPECT_EQ(got.note, "");
  std::printf("odd pictures: largest difference of a value %.3f\n",
              largest_difference(got, expected));
}

}  // namespace
}  // namespace whisker
