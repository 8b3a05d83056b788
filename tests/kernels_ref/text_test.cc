#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;
using Strings = std::vector<std::string>;

Tensor strings(Extents extents, const Strings& values) {
  return exact<std::string>(std::move(extents), values);
}

Strings words(const Tensor& tensor) {
  const auto items = tensor.as<std::string>();
  return {items.begin(), items.end()};
}

TEST(Text, ConcatBroadcasts) {
  const Tensor joined =
      run(OpKind::StringConcat, {strings({2, 1}, {"a", "ü"}), strings({3}, {"x", "", "日本"})});
  EXPECT_EQ(joined.extents(), (Extents{2, 3}));
  EXPECT_EQ(words(joined), (Strings{"ax", "a", "a日本", "üx", "ü", "ü日本"}));
  EXPECT_EQ(run(OpKind::StringConcat, {strings({0, 2}, {}), strings({}, {"x"})}).extents(), (Extents{0, 2}));
}

struct Split {
  std::string text, delimiter;
  std::int64_t most;
  Strings want;
};

// What Python's str.split gives, which is how the standard's own implementation splits.
const Split kSplits[] = {
    {"a b  c", "", -1, {"a", "b", "c"}},
    {" \ta\n b\r\n", "", -1, {"a", "b"}},
    {" a  b  c ", "", 1, {"a", "b  c "}},
    {" a b ", "", 0, {"a b "}},
    {"a\u00a0b\u3000c", "", -1, {"a", "b", "c"}},
    {"", "", -1, {}},
    {"   ", "", -1, {}},
    {"", ",", -1, {""}},
    {"a,,b,", ",", -1, {"a", "", "b", ""}},
    {"a,,b,", ",", 2, {"a", "", "b,"}},
    {"aaaa", "aa", -1, {"", "", ""}},
    {"a--b-c", "--", 5, {"a", "b-c"}},
    {"日本語", "本", -1, {"日", "語"}},
};

TEST(Text, SplitsAsPythonDoes) {
  for (const Split& split : kSplits) {
    graph::Attributes attributes = {{"maxsplit", split.most}};
    if (!split.delimiter.empty()) attributes["delimiter"] = split.delimiter;
    const auto parts = run_all(OpKind::StringSplit, {strings({1}, {split.text})}, attributes, 2);
    EXPECT_EQ(words(parts[0]), split.want) << split.text;
    EXPECT_EQ(parts[1].to_integers(),
              (std::vector<std::int64_t>{static_cast<std::int64_t>(split.want.size())}));
  }
}

TEST(Text, SplitPadsWithEmptyStrings) {
  const auto parts = run_all(OpKind::StringSplit, {strings({2, 2}, {"a", "b c d", "", "e f"})}, {}, 2);
  EXPECT_EQ(parts[0].extents(), (Extents{2, 2, 3}));
  EXPECT_EQ(words(parts[0]), (Strings{"a", "", "", "b", "c", "d", "", "", "", "e", "f", ""}));
  EXPECT_EQ(parts[1].to_integers(), (std::vector<std::int64_t>{1, 3, 0, 2}));
  EXPECT_EQ(run(OpKind::StringSplit, {strings({0}, {})}).extents(), (Extents{0, 0}));
}

Strings normalized(const Strings& input, const std::string& action, bool exact_case, const Strings& stopwords,
                   const std::string& locale = {}) {
  graph::Attributes attributes = {{"case_change_action", action},
                                  {"is_case_sensitive", std::int64_t{exact_case}}};
  if (!stopwords.empty()) attributes["stopwords"] = stopwords;
  if (!locale.empty()) attributes["locale"] = locale;
  return words(
      run(OpKind::StringNormalizer, {strings({static_cast<std::int64_t>(input.size())}, input)}, attributes));
}

TEST(Text, NormalizerChangesCaseOfAllScripts) {
  EXPECT_EQ(normalized({"Äpfel", "ÉCOLE", "ЖИЗНЬ", "ΣΊΣΥΦΟΣ"}, "LOWER", true, {}),
            (Strings{"äpfel", "école", "жизнь", "σίσυφος"}));
  EXPECT_EQ(normalized({"straße", "été", "жизнь", ""}, "UPPER", true, {}),
            (Strings{"STRASSE", "ÉTÉ", "ЖИЗНЬ", ""}));
  EXPECT_EQ(normalized({"title"}, "UPPER", true, {}, "tr_TR"), (Strings{"TİTLE"}));
  EXPECT_EQ(normalized({"title"}, "UPPER", true, {}, "en_US.UTF-8"), (Strings{"TITLE"}));
}

TEST(Text, NormalizerDropsStopwords) {
  EXPECT_EQ(normalized({"Monday", "monday", "Tuesday"}, "NONE", true, {"monday"}),
            (Strings{"Monday", "Tuesday"}));
  EXPECT_EQ(normalized({"Monday", "MONDAY", "Tuesday"}, "UPPER", false, {"mOnday"}), (Strings{"TUESDAY"}));
  EXPECT_EQ(normalized({"ÉTÉ", "x"}, "NONE", false, {"été"}), (Strings{"x"}));
  EXPECT_EQ(normalized({"a", "a"}, "NONE", true, {"a"}), (Strings{""}));
  const Tensor row =
      run(OpKind::StringNormalizer, {strings({1, 2}, {"a", "b"})}, {{"stopwords", Strings{"a", "b"}}});
  EXPECT_EQ(row.extents(), (Extents{1, 1}));
}

TEST(Text, NormalizerRefusesWhatItCannotRead) {
  EXPECT_EQ(error_of(OpKind::StringNormalizer, {strings({1}, {"\xff"})},
                     {{"case_change_action", std::string("UPPER")}}),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of(OpKind::StringNormalizer, {strings({1}, {"a"})},
                     {{"case_change_action", std::string("TITLE")}}),
            ErrorCode::InvalidModel);
  EXPECT_EQ(error_of(OpKind::StringNormalizer, {strings({2, 1}, {"a", "b"})}), ErrorCode::ShapeMismatch);
}

TEST(Text, RegexMatchesTheWholeString) {
  const auto matches = [](const std::string& pattern, const Strings& items) {
    const Tensor result =
        run(OpKind::RegexFullMatch, {strings({static_cast<std::int64_t>(items.size())}, items)},
            {{"pattern", pattern}});
    return values(result);
  };
  EXPECT_EQ(matches("a+", {"aaa", "aab", "", "baa"}), (std::vector<double>{1, 0, 0, 0}));
  EXPECT_EQ(matches(R"(\d{3}-\d+)", {"123-4", "12-4", "123-"}), (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(matches("(?i)straße|.", {"STRAßE", "日", "日本", "\n"}), (std::vector<double>{1, 1, 0, 0}));
  EXPECT_EQ(matches("", {"", "x"}), (std::vector<double>{1, 0}));
}

TEST(Text, RegexWithoutAValidPatternIsRefused) {
  EXPECT_EQ(error_of(OpKind::RegexFullMatch, {strings({1}, {"a"})}, {{"pattern", std::string("(")}}),
            ErrorCode::InvalidModel);
  EXPECT_EQ(error_of(OpKind::RegexFullMatch, {strings({1}, {"a"})}, {{"pattern", std::string("(a)\\1")}}),
            ErrorCode::InvalidModel);
  EXPECT_EQ(error_of(OpKind::RegexFullMatch, {strings({1}, {"a"})}), ErrorCode::InvalidModel);
}

using Integers = std::vector<std::int64_t>;

struct Grams {
  Integers pool, counts, indexes;
  std::int64_t shortest, longest, skips;
};

graph::Attributes attributes_of(const Grams& grams, const std::string& mode,
                                const std::vector<double>& weights = {}) {
  graph::Attributes attributes = {{"mode", mode},
                                  {"min_gram_length", grams.shortest},
                                  {"max_gram_length", grams.longest},
                                  {"max_skip_count", grams.skips},
                                  {"ngram_counts", grams.counts},
                                  {"ngram_indexes", grams.indexes},
                                  {"pool_int64s", grams.pool}};
  if (!weights.empty()) attributes["weights"] = weights;
  return attributes;
}

// Counts each n-gram of the pool by looking at every place and every distance between its items.
std::vector<double> counted(const Integers& row, const Grams& grams) {
  std::vector<double> result(grams.indexes.size());
  std::size_t gram = 0;
  for (std::size_t n = 1; n <= grams.counts.size(); ++n) {
    const auto end = n < grams.counts.size() ? static_cast<std::size_t>(grams.counts[n]) : grams.pool.size();
    for (auto at = static_cast<std::size_t>(grams.counts[n - 1]); at < end; at += n, ++gram) {
      if (static_cast<std::int64_t>(n) < grams.shortest || static_cast<std::int64_t>(n) > grams.longest)
        continue;
      for (std::size_t step = 1; step <= (n == 1 ? 1 : static_cast<std::size_t>(grams.skips) + 1); ++step) {
        for (std::size_t start = 0; start + (n - 1) * step < row.size(); ++start) {
          bool same = true;
          for (std::size_t i = 0; i < n; ++i) same = same && row[start + i * step] == grams.pool[at + i];
          if (same) ++result[static_cast<std::size_t>(grams.indexes[gram])];
        }
      }
    }
  }
  return result;
}

TEST(TfIdf, CountsAsPlainLoopsDo) {
  std::mt19937 generator(7);
  std::uniform_int_distribution<std::int64_t> word(1, 4);
  for (const auto& [shortest, longest] :
       {std::pair(1, 1), std::pair(1, 2), std::pair(2, 2), std::pair(1, 3), std::pair(3, 3)}) {
    for (const std::int64_t skips : {0, 1, 5, 100}) {
      const Grams grams = {{2, 3, 4, 1, 2, 2, 2, 3, 1, 1, 2, 3, 4, 4, 4},
                           {0, 3, 9},
                           {7, 1, 0, 2, 3, 5, 6, 4},
                           shortest,
                           longest,
                           skips};
      for (const std::int64_t length : {0, 1, 2, 17}) {
        Integers items(static_cast<std::size_t>(2 * length));
        for (std::int64_t& item : items) item = word(generator);
        const Tensor x = exact<std::int64_t>({2, length}, items);
        std::vector<double> want;
        for (std::int64_t row = 0; row < 2; ++row) {
          const auto counts =
              counted({items.begin() + row * length, items.begin() + (row + 1) * length}, grams);
          want.insert(want.end(), counts.begin(), counts.end());
        }
        expect_values(run(OpKind::TfIdfVectorizer, {x}, attributes_of(grams, "TF")), {2, 8}, want);
      }
    }
  }
}

TEST(TfIdf, WeightsBelongToTheNGramsOfThePool) {
  const Grams grams = {{5, 6, 5, 6}, {0, 2}, {2, 0, 1}, 1, 2, 0};
  const Tensor x = exact<std::int32_t>({5}, {5, 6, 5, 5, 6});
  // 5 three times, 6 twice, (5, 6) twice.
  expect_values(run(OpKind::TfIdfVectorizer, {x}, attributes_of(grams, "TF", {10, 20, 30})), {3}, {2, 2, 3});
  expect_values(run(OpKind::TfIdfVectorizer, {x}, attributes_of(grams, "IDF", {10, 20, 30})), {3},
                {20, 30, 10});
  expect_values(run(OpKind::TfIdfVectorizer, {x}, attributes_of(grams, "TFIDF", {10, 20, 30})), {3},
                {40, 60, 30});
  expect_values(run(OpKind::TfIdfVectorizer, {x}, attributes_of(grams, "IDF")), {3}, {1, 1, 1});
}

TEST(TfIdf, TakesWords) {
  graph::Attributes attributes = attributes_of({{}, {0, 2}, {0, 1, 2}, 1, 2, 1}, "TF");
  attributes.erase("pool_int64s");
  attributes["pool_strings"] = Strings{"a", "ü", "a", "ü"};
  // (a, ü) next to each other and two apart.
  expect_values(run(OpKind::TfIdfVectorizer, {strings({4}, {"a", "x", "ü", "a"})}, attributes), {3},
                {2, 1, 1});
}

TEST(TfIdf, RefusesListsThatDoNotFit) {
  const Tensor x = exact<std::int64_t>({2}, {1, 2});
  for (const Grams& grams : {Grams{{1, 2, 3}, {0, 2}, {0, 1, 2}, 1, 2, 0}, Grams{{1, 2}, {0}, {0}, 1, 1, 0},
                             Grams{{1, 2}, {0}, {0, -1}, 1, 1, 0}, Grams{{1, 2}, {3}, {0, 1}, 1, 1, 0},
                             Grams{{1, 2}, {0}, {0, 1}, 0, 1, 0}, Grams{{1, 2}, {0}, {0, 1}, 1, 1, -1}}) {
    EXPECT_EQ(error_of(OpKind::TfIdfVectorizer, {x}, attributes_of(grams, "TF")), ErrorCode::InvalidModel);
  }
}

// The published test vectors of MurmurHash3_x86_32.
TEST(MurmurHash, KnownValues) {
  const auto hash = [](const Strings& items, std::int64_t seed) {
    const Tensor result = run(OpKind::MurmurHash3,
                              {strings({static_cast<std::int64_t>(items.size())}, items)}, {{"seed", seed}});
    EXPECT_EQ(result.dtype(), DType::U32);
    return result.to_integers();
  };
  EXPECT_EQ(hash({"", "abc", "test"}, 0), (Integers{0, 0xB3DD93FA, 0xBA6BD213}));
  EXPECT_EQ(hash({""}, 1), (Integers{0x514E28B7}));
  EXPECT_EQ(hash({"a", "aa", "aaa", "aaaa", "Hello, world!"}, 0x9747b28c),
            (Integers{0x7FA09EA6, 0x5D211726, 0x283E0130, 0x5A97808A, 0x24884CBA}));
}

TEST(MurmurHash, HashesTheBytesOfNumbers) {
  const Tensor numbers = exact<std::int32_t>({2}, {0x61616161, 0});
  const Tensor hashed = run(OpKind::MurmurHash3, {numbers},
                            {{"seed", std::int64_t{0x9747b28c}}, {"positive", std::int64_t{0}}});
  EXPECT_EQ(hashed.dtype(), DType::I32);
  EXPECT_EQ(hashed.to_integers()[0], 0x5A97808A);
}

graph::Attributes tokens_of(const Strings& separators, std::int64_t least = 1, bool mark = false) {
  return {{"mark", std::int64_t{mark}},
          {"mincharnum", least},
          {"pad_value", std::string("#")},
          {"separators", separators}};
}

TEST(Tokenizer, CutsAtSeparators) {
  const Tensor x = strings({2}, {"a, b;cd", ""});
  const Tensor tokens = run(OpKind::Tokenizer, {x}, tokens_of({",", "[; ]"}));
  EXPECT_EQ(tokens.extents(), (Extents{2, 3}));
  EXPECT_EQ(words(tokens), (Strings{"a", "b", "cd", "#", "#", "#"}));
  EXPECT_EQ(words(run(OpKind::Tokenizer, {x}, tokens_of({",", "[; ]"}, 2))), (Strings{"cd", "#"}));
  EXPECT_EQ(words(run(OpKind::Tokenizer, {x}, tokens_of({",", "[; ]"}, 1, true))),
            (Strings{"\x02", "a", "b", "cd", "\x03", "\x02", "\x03", "#", "#", "#"}));
  // Separators one after the other, each on what the one before has left.
  EXPECT_EQ(words(run(OpKind::Tokenizer, {strings({1}, {"abab"})}, tokens_of({"ba", "a", "b"}))),
            (Strings{}));
  EXPECT_EQ(run(OpKind::Tokenizer, {strings({1, 2}, {",", ""})}, tokens_of({","}, 1, true)).extents(),
            (Extents{1, 2, 0}));
}

TEST(Tokenizer, CutsCharacters) {
  EXPECT_EQ(words(run(OpKind::Tokenizer, {strings({2}, {"日ü", "a"})}, tokens_of({""}))),
            (Strings{"日", "ü", "a", "#"}));
}

TEST(Tokenizer, TakesWhatLooksLikeATokenOrRefuses) {
  graph::Attributes attributes = tokens_of({","}, 2);
  EXPECT_EQ(error_of(OpKind::Tokenizer, {strings({1}, {"\xff"})}, attributes), ErrorCode::InvalidArgument);
  attributes["tokenexp"] = std::string("[a-zü]+");
  EXPECT_EQ(error_of(OpKind::Tokenizer, {strings({1}, {"a"})}, attributes), ErrorCode::InvalidModel);
  attributes.erase("separators");
  EXPECT_EQ(words(run(OpKind::Tokenizer, {strings({1}, {"ab1c22über"})}, attributes)),
            (Strings{"ab", "über"}));
  attributes["tokenexp"] = std::string("(");
  EXPECT_EQ(error_of(OpKind::Tokenizer, {strings({1}, {"a"})}, attributes), ErrorCode::InvalidModel);
}

}  // namespace
}  // namespace kiln::reference
