// Classes of characters, small letters, normal form C and names found by it.
#include "core/io/unicode.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

TEST(Unicode, ClassesOfCharacters) {
  for (const char32_t c :
       {U' ', U'\t', U'\u00a0', U'\u2003', U'\u3000', U'\u200b', U'\u2028', U'\u0085', U'\ufeff'}) {
    EXPECT_EQ(character_class(c), CharacterClass::space) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {U'a', U'7', U'é', U'漢', U'\u0665', U'ß', U'Ⅳ', U'あ'}) {
    EXPECT_EQ(character_class(c), CharacterClass::word) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {U'\u0301', U'\u200d', U'\u00ad', U'\ufe0f', U'\u093f'}) {
    EXPECT_EQ(character_class(c), CharacterClass::extend) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {U'.', U'_', U'“', U'—', U'…', U'。', U'€', U'😀', U'\x01'}) {
    EXPECT_EQ(character_class(c), CharacterClass::other) << static_cast<uint32_t>(c);
  }
}

TEST(Unicode, NormalFormC) {
  EXPECT_EQ(to_nfc("cafe\u0301"), "caf\u00e9");
  EXPECT_EQ(to_nfc("caf\u00e9"), "caf\u00e9");
  EXPECT_EQ(to_nfc("\u1112\u1161\u11ab"), "\ud55c");  // Hangul
  EXPECT_EQ(to_nfc("\ufb01"), "\ufb01") << "no compatibility forms";
  EXPECT_EQ(to_nfc("plain"), "plain");
  EXPECT_EQ(to_nfc("\xff"), "\xff") << "what is not UTF-8 stays";
  EXPECT_EQ(to_nfc(std::string("e\u0301\0b", 5)), std::string("\u00e9\0b", 4));
}

TEST(Unicode, NormalFormCOfLongTexts) {
  std::string given, want;
  for (int i = 0; i < 400'000; ++i) {  // some MiB
    given += i % 1000 == 0 ? "\n\u0301" : "e\u0301";
    want += i % 1000 == 0 ? "\n\u0301" : "\u00e9";
  }
  EXPECT_TRUE(to_nfc(given) == want);
  given += "\xff";
  EXPECT_TRUE(to_nfc(given) == given);
}

TEST(Unicode, SmallLettersOfEveryAlphabet) {
  EXPECT_EQ(to_small_letters("ÀŽŁ ΆΩ ЖЁ Ấ ԱԲ 漢ß"), "àžł άω жё ấ աբ 漢ß");
  EXPECT_EQ(to_small_letters("A\xff"), "a\xff");
}

TEST(Unicode, NamesAreFoundByTheirBytesFirst) {
  const std::vector<std::string> names = {"caf\u00e9", "cafe\u0301", "the\u0301", "x"};
  EXPECT_EQ(find_name(names, "cafe\u0301").index, 1u);
  EXPECT_FALSE(find_name(names, "cafe\u0301").normalised);
  const NameMatch other = find_name(names, "th\u00e9");
  EXPECT_EQ(other.index, 2u);
  EXPECT_TRUE(other.normalised);
  EXPECT_FALSE(find_name(names, "cafe").index);
  const std::vector<std::string> two = {"\u1e69", "s\u0323\u0307"};  // one letter, three spellings
  const NameMatch several = find_name(two, "s\u0307\u0323");
  EXPECT_TRUE(several.several);
  EXPECT_FALSE(several.index);
}

}  // namespace
}  // namespace whisker
