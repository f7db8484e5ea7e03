// Test cases of bad input: compressed tables, and files with one word per line, that are damaged, truncated or
// compressed in another format than their name says; and unusual files that must be accepted.
#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
// The suffix s makes a std::string of a literal with its full length, so that it can contain NUL bytes.
using namespace std::string_literals;
namespace {

// A CSV file with the header "sentence,label" and four rows, compressed by gzip and by zstd.
const std::string kPackedByGzip =
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x2b\x4e\xcd\x2b\x49\xcd\x4b\x4e\xd5\xc9\x49\x4c\x4a\xcd"
    "\xe1\x2a\xcf\x2f\x4a\x31\x54\xc8\x2c\xd6\x49\xcf\xcf\x4f\x01\xf3\x8c\x40\xbc\xa4\x44\x08\xc7\x18"
    "\x21\x6e\x02\x16\x04\x00\x31\x08\x56\x03\x3f\x00\x00\x00"s;
const std::string kPackedByZstd =
    "\x28\xb5\x2f\xfd\x24\x3f\xa5\x01\x00\x64\x02\x73\x65\x6e\x74\x65\x6e\x63\x65\x2c\x6c\x61\x62\x65"
    "\x6c\x0a\x77\x6f\x72\x64\x31\x20\x69\x73\x2c\x67\x6f\x6f\x64\x32\x62\x61\x33\x34\x2c\x62\x61\x64"
    "\x0a\x04\x00\x3b\xb7\x80\x39\x08\x82\x11\xd7\xcc\x03\xb1\xca\x08\x01"s;

Case data(std::string name, int exit_code, Words words, std::string file, std::string text, Words more = {}) {
  return {std::move(name), exit_code, std::move(words),
          [file = std::move(file), text = std::move(text), more = std::move(more)](const Ground& ground) {
            return ground.train(ground.file(file, text), more);
          }};
}

std::string flipped(std::string bytes, size_t at) {
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 0x40);
  return bytes;
}

std::vector<Case> compressed_cases() {
  const std::string cut = "the compressed data ends too early";
  const std::string damaged = "the compressed data is damaged";
  return {
      data("PackedGzip", 0, {"train 4 rows"}, "packed.csv.gz", kPackedByGzip),
      data("PackedGzipInCapitals", 0, {"train 4 rows"}, "packed.CSV.GZ", kPackedByGzip),
      data("PackedZstd", 0, {"train 4 rows"}, "packed.csv.zst", kPackedByZstd),
      data("PackedZstdByItsLongName", 0, {"train 4 rows"}, "packed.csv.zstd", kPackedByZstd),
      data("PackedGzipEmpty", 4, {"empty.csv.gz: the file is empty"}, "empty.csv.gz", ""),
      data("PackedGzipFirstByte", 4, {"byte.csv.gz", cut}, "byte.csv.gz", "\x1f"),
      data("PackedGzipWithoutItsEnd", 4, {"end.csv.gz", cut, "after 63 bytes of text"}, "end.csv.gz",
           kPackedByGzip.substr(0, kPackedByGzip.size() - 3)),
      data("PackedGzipHalf", 4, {"half.csv.gz", cut, "the file is cut"}, "half.csv.gz",
           kPackedByGzip.substr(0, kPackedByGzip.size() / 2)),
      data("PackedGzipOfAnotherSum", 4, {"sum.csv.gz", damaged, "incorrect data check"}, "sum.csv.gz",
           flipped(kPackedByGzip, kPackedByGzip.size() - 6)),
      data("PackedGzipOfAnotherMethod", 4, {"method.csv.gz", damaged, "unknown compression method"},
           "method.csv.gz", flipped(kPackedByGzip, 2)),
      data("PackedGzipOfUnknownFlags", 4, {"flags.csv.gz", damaged, "unknown header flags"}, "flags.csv.gz",
           flipped(kPackedByGzip, 3)),
      data("PackedGzipBeforeOtherBytes", 4, {"more.csv.gz", damaged, "other bytes follow its end"},
           "more.csv.gz", kPackedByGzip + "word5,good"),
      data(
          "PackedGzipOfGzip", 4, {"twice.csv.gz", "compressed with gzip", "gunzip"}, "twice.csv.gz",
          // A gzip file whose uncompressed content begins like a gzip file, as if it had been compressed twice.
          "\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\x03\x01\x06\x00\xf9\xff\x1f\x8b\x08\x00\x00\x00\x81\xb8\xc0\x40\x06\x00\x00\x00"s),
      data("PackedGzipAsZstd", 4, {"name.csv.zst", "compressed with gzip"}, "name.csv.zst", kPackedByGzip),
      data("PackedZstdAsGzip", 4, {"name.csv.gz", "zstd"}, "name.csv.gz", kPackedByZstd),
      data("PackedTwiceByName", 2, {"twice.csv.gz.gz: data files must be .csv"}, "twice.csv.gz.gz",
           kPackedByGzip),
      data("PackedByBzip2", 2,
           {"data.csv.bz2: data files must be .csv", "unpack it with `bunzip2", "convert it"}, "data.csv.bz2",
           "BZh9"),
      data("PackedByXz", 2, {"data.csv.xz: data files must be .csv", "unpack it with `unxz", "convert it"},
           "data.csv.xz",
           "\xfd"
           "7zXZ"),
      data("PackedByZip", 2, {"data.csv.zip: data files must be .csv", "unpack it with `unzip", "convert it"},
           "data.csv.zip", "PK"),
      data("PackedByGzipByItsLongName", 2,
           {"data.csv.gzip: data files must be .csv", "unpack it with `gunzip -S .gzip"}, "data.csv.gzip",
           kPackedByGzip),
      data("PackedZstdMagic", 4, {"magic.csv.zst", cut}, "magic.csv.zst", kPackedByZstd.substr(0, 4)),
      data("PackedZstdHalf", 4, {"half.csv.zst", cut}, "half.csv.zst",
           kPackedByZstd.substr(0, kPackedByZstd.size() / 2)),
      data("PackedZstdFlipped", 4, {"flip.csv.zst", damaged}, "flip.csv.zst",
           flipped(kPackedByZstd, kPackedByZstd.size() - 1)),
      data("PackedZstdBeforeOtherBytes", 4, {"more.csv.zst", damaged}, "more.csv.zst",
           kPackedByZstd + "junk"),
      data("PackedZstdOfAHugeWindow", 4,
           {"window.csv.zst", "needs more memory (a larger window) than is allowed"}, "window.csv.zst",
           "\x28\xb5\x2f\xfd\x00\xf8\x00\x00\x00\x00\x00\x00\x00\x00"s),
      data("PackedZstdOfADictionary", 4, {"dictionary.csv.zst", damaged, "Dictionary mismatch"},
           "dictionary.csv.zst", "\x28\xb5\x2f\xfd\x03\x58\x01\x00\x00\x00\x00\x00\x00\x00\x00"s),
      data("PackedZstdEndlessSkip", 4, {"skip.csv.zst", cut}, "skip.csv.zst",
           "\x50\x2a\x4d\x18\xff\xff\xff\x7f"s),
      data("PackedZstdEmpty", 4, {"empty.csv.zst: the file is empty"}, "empty.csv.zst", ""),
  };
}

std::vector<Case> sentence_cases() {
  const std::string good = "word1 B-X\nis O\n\nword2 O\nis B-X\n";
  return {
      data("ConllGood", 0, {"train 2 rows"}, "good.conll", good),
      data("ConllOfTabs", 0, {"train 1 row"}, "tabs.conll", "word1\tB-X\nis\tO\n"),
      data("ConllEmpty", 4, {"empty.conll: the file is empty"}, "empty.conll", ""),
      data("ConllOfBlankLines", 4, {"blank.conll: the file has no words"}, "blank.conll", "\n\n\n"),
      data("ConllOfDocuments", 4, {"start.conll: the file has no words"}, "start.conll",
           "-DOCSTART- -X- O O\n\n"),
      data("ConllOfOneColumn", 4, {"one.conll:1: no column is called 'label'", "'tokens'"}, "one.conll",
           "word1\nis\n"),
      data("ConllLongLine", 4,
           {"long.conll:2: the line 'is O O' has 3 columns", "but line 1, which has the first word, has 2"},
           "long.conll", "word1 B-X\nis O O\n"),
      data("ConllOtherSeparator", 4,
           {"other.conll:2: the line 'is O' has 1 column", "but line 1, which has the first word, has 2"},
           "other.conll", "word1\tB-X\nis O\n"),
      data("ConllEmptyColumn", 4, {"hole.conll:1: column 2 is empty"}, "hole.conll", "word1\t\nis\tO\n"),
      data("ConllNul", 4, {"nul.conll:1:3: NUL byte"}, "nul.conll", "wo\0rd B-X\nis O\n"s),
      data("ConllInvalidUtf8", 4, {"utf8.conll:2:2: byte 0xFF"}, "utf8.conll", "word1 B-X\ni\xff O\n"),
      data("ConllPointer", 4, {"git lfs pull"}, "pointer.conll",
           "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"),
      data("ConllAsJsonl", 4, {"sentences.jsonl:1:1", "not valid JSON"}, "sentences.jsonl", good),
      data("ConlluLineOfFourColumns", 4,
           {"four.conllu:1: a line of a .conllu file has 10 columns", "this line has 4"}, "four.conllu",
           "1\tword1\t_\tNOUN\n\n"),
  };
}

}  // namespace

std::vector<Case> packed_cases() {
  return joined({compressed_cases(), sentence_cases()});
}

}  // namespace plimsoll::testing
