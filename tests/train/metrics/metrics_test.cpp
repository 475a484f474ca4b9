// Counting against figures worked out by hand.
#include "train/metrics/metrics.h"

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

TEST(Metrics, HandWorkedExample) {
  ClassificationMetrics metrics({"a", "b", "c"});
  // label, predicted: aa ab ba bb bb cb
  const std::pair<int, int> rows[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {1, 1}, {2, 1}};
  for (const auto& [label, predicted] : rows) {
    std::vector<float> scores(3, 0.1F);
    scores[static_cast<size_t>(predicted)] = 0.8F;
    metrics.add(scores, label);
  }
  metrics.add_loss(0.5, 4);
  metrics.add_loss(2.0, 2);
  EXPECT_EQ(metrics.count(), 6);
  EXPECT_EQ(metrics.correct(), 3);
  EXPECT_DOUBLE_EQ(metrics.accuracy(), 0.5);
  EXPECT_DOUBLE_EQ(metrics.loss(), 1.0);
  EXPECT_THAT(metrics.confusion(), testing::ElementsAre(1, 1, 0, 1, 2, 0, 0, 1, 0));
  const std::vector<ClassReport> reports = metrics.per_class();
  EXPECT_DOUBLE_EQ(reports[0].precision, 0.5);
  EXPECT_DOUBLE_EQ(reports[0].recall, 0.5);
  EXPECT_DOUBLE_EQ(reports[1].precision, 0.5);
  EXPECT_DOUBLE_EQ(reports[1].recall, 2.0 / 3);
  EXPECT_DOUBLE_EQ(reports[1].f1, 4.0 / 7);
  EXPECT_DOUBLE_EQ(reports[2].precision, 0);  // never predicted
  EXPECT_DOUBLE_EQ(reports[2].recall, 0);
  EXPECT_DOUBLE_EQ(reports[2].f1, 0);
  EXPECT_EQ(reports[2].examples, 1);

  JsonWriter writer;
  metrics.write(writer.begin_object());
  const JsonValue json = JsonValue::parse(writer.end_object().str(), {});
  EXPECT_DOUBLE_EQ(json.at("accuracy").as_double(), 0.5);
  EXPECT_EQ(json.at("confusion").items()[1].items()[1].as_int(), 2);
  EXPECT_EQ(json.at("per_class").items()[2].at("name").as_string(), "c");
  EXPECT_EQ(json.find("top_5"), nullptr);
  EXPECT_DOUBLE_EQ(metrics.f1_macro(), (0.5 + 4.0 / 7 + 0) / 3);
  EXPECT_DOUBLE_EQ(json.at("f1_macro").as_double(), metrics.f1_macro());
  EXPECT_EQ(json.find("f1_class"), nullptr);
  EXPECT_EQ(metrics.figures().front().name, "accuracy");
  EXPECT_EQ(metrics.figure("loss").value, 1.0);
  EXPECT_THROW(metrics.figure("mae"), Error);
}

// scikit-learn 1.7: f1_score(labels, predictions, average='macro').
TEST(Metrics, ClassesThatDoNotOccurAreNoPartOfMacroF1) {
  const auto row = [](ClassificationMetrics& metrics, int label, int predicted) {
    std::vector<float> scores(static_cast<size_t>(metrics.classes()), 0.1F);
    scores[static_cast<size_t>(predicted)] = 0.8F;
    metrics.add(scores, label);
  };
  ClassificationMetrics right({"a", "b", "c", "d", "e"});
  for (int c = 0; c < 3; ++c) row(right, c, c);
  EXPECT_DOUBLE_EQ(right.f1_macro(), 1);
  EXPECT_DOUBLE_EQ(right.f1_of_old_runs(), 0.6);
  row(right, 0, 4);  // predicted, though never a label: an F1 of 0
  EXPECT_DOUBLE_EQ(right.f1_macro(), (2.0 / 3 + 1 + 1 + 0) / 4);
  EXPECT_DOUBLE_EQ(ClassificationMetrics({"a", "b"}).f1_macro(), 0);
}

// 5 defects and 95 good parts, all predicted as good: scikit-learn's 0.4872, 0 and 0.9744.
TEST(Metrics, OfTwoClassesEachF1IsNamed) {
  const auto filled = [](const std::string& positive) {
    ClassificationMetrics metrics({"defect", "ok"}, 0, "images", positive);
    for (int i = 0; i < 100; ++i) metrics.add(std::vector<float>{0.1F, 0.9F}, i < 5 ? 0 : 1);
    return metrics;
  };
  const ClassificationMetrics both = filled("");
  EXPECT_NEAR(both.f1_macro(), 0.487179, 1e-6);
  EXPECT_EQ(both.line(),
            "loss 0.0000 accuracy 0.9500 f1_macro 0.4872 f1_class(defect) 0.0000 "
            "f1_class(ok) 0.9744");
  EXPECT_EQ(both.figures().size(), 2u);
  EXPECT_NEAR(both.figure("f1").value, 0.974359, 1e-6);  // of old runs: the second one
  const auto error = [&] { return both.figure("f1_class"); };
  EXPECT_THROW(error(), Error);
  const ClassificationMetrics one = filled("defect");
  EXPECT_EQ(one.line(), "loss 0.0000 accuracy 0.9500 f1_macro 0.4872 f1_class(defect) 0.0000");
  EXPECT_EQ(one.figure("f1_class").value, 0);
  EXPECT_TRUE(one.figure("f1_class").higher_is_better);
  JsonWriter writer;
  one.write(writer.begin_object());
  const JsonValue json = JsonValue::parse(writer.end_object().str(), {});
  EXPECT_EQ(json.at("f1_class").as_double(), 0);
  EXPECT_EQ(json.at("positive_class").as_string(), "defect");
}

TEST(Metrics, OfAClassWithoutExamplesNothingIsMeasured) {
  ClassificationMetrics metrics({"cat", "dog"}, 0, "images", "dog");
  metrics.add(std::vector<float>{0.9F, 0.1F}, 0);
  EXPECT_EQ(metrics.line(),
            "loss 0.0000 accuracy 1.0000 f1_macro 1.0000 f1_class(dog) not measured");
  JsonWriter writer(NonFinite::null);
  metrics.write(writer.begin_object());
  const JsonValue json = JsonValue::parse(writer.end_object().str(), {});
  EXPECT_TRUE(json.at("f1_class").is_null());
  EXPECT_TRUE(json.at("per_class").items()[1].at("recall").is_null());
  EXPECT_EQ(json.at("per_class").items()[0].at("recall").as_double(), 1);
}

TEST(Metrics, TopKCountsTiesAgainstTheLabel) {
  ClassificationMetrics metrics(std::vector<std::string>(7, "x"), 5);
  const std::vector<float> falling = {7, 6, 5, 4, 3, 2, 1};
  metrics.add(falling, 4);  // fifth
  EXPECT_DOUBLE_EQ(metrics.top_k_accuracy(), 1);
  metrics.add(falling, 5);  // sixth
  EXPECT_DOUBLE_EQ(metrics.top_k_accuracy(), 0.5);
  const std::vector<float> constant(7, 0.5F);
  metrics.add(constant, 6);
  EXPECT_DOUBLE_EQ(metrics.top_k_accuracy(), 1.0 / 3);
  metrics.add(constant, 0);
  EXPECT_DOUBLE_EQ(metrics.top_k_accuracy(), 0.5);
}

TEST(Metrics, NothingCountedIsNoDivisionByZero) {
  const ClassificationMetrics metrics({"a", "b"}, 0);
  EXPECT_EQ(metrics.accuracy(), 0);
  EXPECT_EQ(metrics.loss(), 0);
  EXPECT_EQ(metrics.top_k_accuracy(), 0);
}

TEST(Metrics, TheTablesColumnsLieBelowTheirNames) {
  ClassificationMetrics metrics({"a", "a very long class name"});
  metrics.add(std::vector<float>{0.9F, 0.1F}, 0);
  std::istringstream table(metrics.table(80));
  std::string header, line;
  std::getline(table, header);
  for (int row = 0; row < 2; ++row) {
    std::getline(table, line);
    EXPECT_EQ(line.size(), header.size()) << line;
  }
}

TEST(Metrics, TableNamesClassesAndHoldsTheMatrixUpToTwentyClasses) {
  ClassificationMetrics small({"a very long class name", "b"});
  small.add(std::vector<float>{1, 0}, 0);
  EXPECT_EQ(small.table(80),
            "class                   images  precision  recall      f1\n"
            "----------------------  ------  ---------  ------  ------\n"
            "a very long class name       1     1.0000  1.0000  1.0000\n"
            "b                            0          -       -       -\n"
            "\n"
            "confusion matrix: rows are labels, columns predictions\n"
            "                        a very long class name  b\n"
            "----------------------  ----------------------  -\n"
            "a very long class name                       1  0\n"
            "b                                            0  0\n");
  ClassificationMetrics large(std::vector<std::string>(21, "x"));
  std::vector<float> scores(21);
  scores[3] = 1;
  large.add(scores, 5);
  EXPECT_THAT(large.table(80), testing::Not(testing::HasSubstr("confusion matrix")));
  EXPECT_THAT(large.table(80),
              testing::HasSubstr("\nand 19 classes without images and predictions\n"));
}

// Where names are too wide they are not cut, since two might then look alike.
TEST(Metrics, WideNamesAreNumbersInTheMatrix) {
  ClassificationMetrics metrics({"golden retriever", "golden eagle\x1b"});
  metrics.add(std::vector<float>{0, 1}, 0);
  EXPECT_EQ(metrics.table(51),
            "   class             images  precision  recall      f1\n"
            "-  ----------------  ------  ---------  ------  ------\n"
            "1  golden retriever       1     0.0000  0.0000  0.0000\n"
            "2  golden eagle\\x1b       0     0.0000       -       -\n"
            "\n"
            "confusion matrix: rows are labels, columns predictions, numbered as above\n"
            "   1  2\n"
            "-  -  -\n"
            "1  0  1\n"
            "2  0  0\n");
}

TEST(Metrics, TheMatrixFitsTheColumnsForAnyNamesAndCounts) {
  for (const size_t classes : {2, 7, 10, 20}) {
    for (const size_t length : {1, 8, 30}) {
      for (const int columns : {24, 40, 80, 200}) {
        std::vector<std::string> names;
        for (size_t c = 0; c < classes; ++c) {  // alike but for their last letter
          names.push_back(std::string(length - 1, 'n') + static_cast<char>('a' + c));
        }
        ClassificationMetrics metrics(names);
        for (size_t c = 0; c < classes; ++c) {
          std::vector<float> scores(classes);
          scores[c] = 1;
          for (size_t i = 0; i <= 1000 * c; ++i) metrics.add(scores, static_cast<int64_t>(c));
        }
        const std::string table = metrics.table(columns);
        SCOPED_TRACE(table);
        const size_t at = table.find("confusion matrix");
        std::istringstream lines(table.substr(table.find('\n', at) + 1));
        std::set<std::string> headings;
        bool heads = true;
        for (std::string line; std::getline(lines, line); heads = line.empty()) {
          EXPECT_LE(std::ssize(line), columns);
          std::istringstream words(heads ? line : "");
          for (std::string word; words >> word;) {
            EXPECT_TRUE(headings.insert(word).second) << word;
          }
        }
        EXPECT_EQ(headings.size(), classes);
        for (size_t c = 0; c < classes; ++c) {
          EXPECT_THAT(table, testing::HasSubstr(fmt::format(" {}", 1000 * c + 1)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace whisker
