#include "tests/support/tiny_sequences.h"

#include "tests/support/overrides.h"

#include <cmath>

namespace whisker::test {

void write_two_languages(const TemporaryFolder& folder) {
  std::string vowels, consonants;
  for (int i = 0; i < 60; ++i) {
    std::string word;
    for (int k = 0; k < 3 + i % 7; ++k) word += static_cast<char>('b' + (i * 5 + k * 3) % 2);
    consonants += word + "\n";
    word[static_cast<size_t>(i) % word.size()] = 'a';
    vowels += word + "\n";
  }
  folder.write("words/with.txt", vowels);
  folder.write("words/without.txt", consonants);
}

Config text_config(const TemporaryFolder& folder, const std::vector<std::string>& overrides) {
  const std::string yaml = R"(
name: words
device: cpu
data: {kind: text, val_split: 0.2, buckets: 3, workers: 0}
model:
  layers: [{embedding: {input_dim: vocabulary, output_dim: 8}}, {lstm: {units: 12}}]
  head: [{dense: {units: classes}}]
optimizer: {lr: 2e-2}
train: {epochs: 12, batch_size: 8}
)";
  return read_config_text(
      yaml, "words.yaml",
      joined({"data.train=" + (folder / "words").string(), "runs=" + (folder / "runs").string()},
             overrides));
}

Config language_config(const TemporaryFolder& folder, const std::vector<std::string>& overrides) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += i % 3 == 0 ? "the cat sat. " : "a dog ran. ";
  folder.write("text.txt", text);
  const std::string yaml = R"(
name: text
device: cpu
data: {kind: language, val_split: 0.1, text: {steps: 8}}
model:
  layers: [{embedding: {input_dim: vocabulary, output_dim: 8}},
           {lstm: {units: 24, return_sequences: true}}]
  head: [{dense: {units: classes}}]
optimizer: {lr: 2e-2}
train: {epochs: 4, batch_size: 8}
)";
  return read_config_text(
      yaml, "text.yaml",
      joined({"data.train=" + (folder / "text.txt").string(), "runs=" + (folder / "runs").string()},
             overrides));
}

Config series_config(const TemporaryFolder& folder, const std::vector<std::string>& overrides) {
  std::string csv = "month,value\n";
  for (int i = 0; i < 96; ++i) {
    csv += fmt::format("m{},{}\n", i, 100 + 2 * i + 20 * std::sin(i * M_PI / 6));
  }
  folder.write("s.csv", csv);
  const std::string yaml = R"(
name: s
device: cpu
data: {kind: series, val_split: 0.25, series: {columns: [value], window: 12, season: 12, difference: 12}}
model: {layers: [{gru: {units: 8}}, {dense: {units: 1}}]}
train: {epochs: 5, batch_size: 8}
)";
  return read_config_text(
      yaml, "s.yaml",
      joined({"data.train=" + (folder / "s.csv").string(), "runs=" + (folder / "runs").string()},
             overrides));
}

}  // namespace whisker::test
