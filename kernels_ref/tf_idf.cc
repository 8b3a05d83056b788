// TfIdfVectorizer: counts the n-grams of a pool in sequences of words or numbers.
#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

// The pool as a tree of first items, second items and so on.
struct Trie {
  std::unordered_map<std::int64_t, Trie> next;
  std::vector<std::size_t> grams;  // numbers of the n-grams that end here
};

// Words as numbers; those that no n-gram has are all -1.
class Vocabulary {
 public:
  std::int64_t add(std::string_view word) {
    return numbers_.emplace(word, static_cast<std::int64_t>(numbers_.size())).first->second;
  }
  std::int64_t find(std::string_view word) const {
    const auto found = numbers_.find(word);
    return found == numbers_.end() ? -1 : found->second;
  }

 private:
  std::unordered_map<std::string_view, std::int64_t> numbers_;
};

// n-grams of one length follow each other in the pool; counts[n - 1] says where those of length n start.
Trie make_trie(std::span<const std::int64_t> pool, std::span<const std::int64_t> counts) {
  Trie root;
  std::size_t gram = 0;
  for (std::size_t n = 1; n <= counts.size(); ++n) {
    const auto begin = static_cast<std::size_t>(counts[n - 1]);
    const auto end = n < counts.size() ? static_cast<std::size_t>(counts[n]) : pool.size();
    for (std::size_t at = begin; at < end; at += n) {
      Trie* node = &root;
      for (const std::int64_t item : pool.subspan(at, n)) node = &node->next[item];
      node->grams.push_back(gram++);
    }
  }
  return root;
}

}  // namespace

void tf_idf_vectorizer(Call& call) {
  const Tensor& x = call.input(0);
  const graph::Node& node = call.node;
  std::vector<std::int64_t> pool, items;
  Vocabulary vocabulary;
  if (x.dtype() == DType::String) {
    for (const std::string& word : texts(node, "pool_strings")) pool.push_back(vocabulary.add(word));
    for (const std::string& word : x.as<std::string>()) items.push_back(vocabulary.find(word));
  } else {
    const auto given = integers(node, "pool_int64s");
    pool.assign(given.begin(), given.end());
    items = x.to_integers();
  }
  const Trie trie = make_trie(pool, integers(node, "ngram_counts"));
  const auto indexes = integers(node, "ngram_indexes");
  const std::string& mode = text(node, "mode");
  const auto weight = [&](std::size_t gram) {
    return mode == "TF" || !has(node, "weights") ? 1.0 : numbers(node, "weights")[gram];
  };
  const std::int64_t longest = integer(node, "max_gram_length"), shortest = integer(node, "min_gram_length"),
                     skips = integer(node, "max_skip_count");

  const std::int64_t length = x.rank() == 0 ? 1 : x.extents().back();
  const std::int64_t rows = x.rank() == 2 ? x.extents()[0] : 1;
  const std::int64_t width = *std::max_element(indexes.begin(), indexes.end()) + 1;
  Extents extents = {width};
  if (x.rank() == 2) extents.insert(extents.begin(), rows);
  const DType dtype = call.promoted(DType::F32);
  Tensor& result = call.output(0, dtype, extents);
  std::vector<std::int64_t> counts(indexes.size());
  std::vector<double> y(static_cast<std::size_t>(width));
  for (std::int64_t row = 0; row < rows; ++row) {
    std::fill(counts.begin(), counts.end(), 0);
    // Items of an n-gram lie `step` apart. For single items every step is the same one.
    for (std::int64_t step = 1; step <= std::min(longest > 1 ? skips : 0, length) + 1; ++step) {
      for (std::int64_t start = 0; start < length; ++start) {
        const Trie* place = &trie;
        std::int64_t n = 1;
        for (std::int64_t at = start; at < length && n <= longest; at += step, ++n) {
          const auto found = place->next.find(items[static_cast<std::size_t>(row * length + at)]);
          if (found == place->next.end()) break;
          place = &found->second;
          if (n < shortest || (n == 1 && step > 1)) continue;
          for (const std::size_t gram : place->grams) ++counts[gram];
        }
      }
    }
    std::fill(y.begin(), y.end(), 0);
    for (std::size_t gram = 0; gram < counts.size(); ++gram) {
      const std::int64_t count = mode == "IDF" ? std::min<std::int64_t>(counts[gram], 1) : counts[gram];
      y[static_cast<std::size_t>(indexes[gram])] += static_cast<double>(count) * weight(gram);
    }
    dispatch(WideFloats{}, dtype, [&]<typename T>() {
      std::transform(y.begin(), y.end(), result.as_mutable<T>().begin() + row * width,
                     [](double value) { return static_cast<T>(value); });
    });
  }
}

}  // namespace kiln::reference
