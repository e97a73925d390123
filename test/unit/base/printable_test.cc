#include "base/printable.h"

#include <catch2/catch.hpp>
#include <random>

using tutti::base::printable;
using tutti::base::quoted;

namespace {

/// Whether the text may stand in a log: it has no control character and no escape sequence.
bool is_one_line(const std::string& text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("printable text stays as it is, in every script") {
  for (const char* const text :
       {"fc1_weight", "C:\\tmp\\it's \"w\"", "größe", "重み.層1", "мост", "😀"}) {
    CHECK(printable(text) == text);
  }
  CHECK(quoted("größe/重み") == "'größe/重み'");
}

TEST_CASE("control characters of every kind are escaped") {
  CHECK(printable("a\nb\r\tc") == R"(a\nb\r\tc)");
  CHECK(printable("\x1b[31mred\x7f") == R"(\x1b[31mred\x7f)");
  CHECK(printable(std::string_view("a\0b", 3)) == R"(a\x00b)");
  // C1: a control sequence introducer; line and paragraph separators.
  CHECK(printable("\u009b31m") == R"(\x9b31m)");
  CHECK(printable("a\u2028b\u2029c") == R"(a\u2028b\u2029c)");
  CHECK(printable("\u202e\u2066\u061c\u200f\ufeff") == R"(\u202e\u2066\u061c\u200f\ufeff)");
}

TEST_CASE("bytes that are not UTF-8 are escaped one by one") {
  CHECK(printable("\xff\xc3") == R"(\xff\xc3)");
  // An overlong null, half of a surrogate pair, a character cut short.
  CHECK(printable("\xc0\x80") == R"(\xc0\x80)");
  CHECK(printable("\xed\xa0\x80") == R"(\xed\xa0\x80)");
  CHECK(printable("a\xe9\x87\"") == "a\\xe9\\x87\"");
}

TEST_CASE("a name in quotes cannot end them") {
  CHECK(quoted("a' and rank 1's \\") == R"('a\' and rank 1\'s \\')");
  CHECK(quoted("say \"w\"") == R"('say "w"')");
}

TEST_CASE("of a long name begin and end are shown, and how long it is") {
  CHECK(quoted(std::string(128, 'k')) == "'" + std::string(128, 'k') + "'");
  const std::string name = "encoder." + std::string(1000, 'x') + ".attention.weight";
  CHECK(quoted(name) == "'encoder." + std::string(56, 'x') + "..." + std::string(47, 'x') +
                            ".attention.weight' (1025 bytes)");
}

TEST_CASE("a long text is not cut within a character") {
  for (std::size_t before = 0; before < 4; ++before) {
    std::string text(before, 'a');
    for (int i = 0; i < 300; ++i) text += "重";
    CHECK(quoted(text).find("\\x") == std::string::npos);
    CHECK(printable(text, 100).find("\\x") == std::string::npos);
  }
}

TEST_CASE("whatever the bytes are, a line comes out that is bounded and escaped once only") {
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 300, ' ');
    const bool high = i % 2 == 0;
    for (char& c : text) c = static_cast<char>(high ? 0x80 + random() % 0x80 : random());
    const std::string line = printable(text, 200);
    REQUIRE(is_one_line(line));
    REQUIRE(line.size() <= 4 * 200 + 20);
    REQUIRE(printable(line) == line);
    REQUIRE(is_one_line(quoted(text)));
    REQUIRE(quoted(text).size() <= 4 * 128 + 20);
  }
}
