#include "jit/cache/store.h"

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/jit/cache/store_fixture.h"

namespace kiln::jit {
namespace {

using ArtifactStore = StoreTest;

mode_t mode_of(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

TEST_F(ArtifactStore, GivesBackWhatWasInserted) {
  const ArtifactKey key = test_key(1);
  {
    const auto store = open();
    EXPECT_FALSE(store->find(key));
    store->insert(key, test_artifact(key));
    EXPECT_TRUE(holds(*store, key));
  }
  const auto again = open();
  EXPECT_TRUE(holds(*again, key));
  EXPECT_TRUE(log.empty());
}

TEST_F(ArtifactStore, KeepsEmptyAndLargeObjects) {
  const auto store = open();
  store->insert(test_key(1), test_artifact(test_key(1), 0));
  store->insert(test_key(2), test_artifact(test_key(2), 5 << 20));
  EXPECT_TRUE(holds(*store, test_key(1), 0));
  EXPECT_TRUE(holds(*store, test_key(2), 5 << 20));
}

TEST_F(ArtifactStore, ReplacesWhatHasTheKey) {
  const auto store = open();
  store->insert(test_key(1), test_artifact(test_key(1), 10));
  store->insert(test_key(1), test_artifact(test_key(1), 20));
  EXPECT_TRUE(holds(*store, test_key(1), 20));
  EXPECT_EQ(store->stats().value().artifacts, 1);
  EXPECT_EQ(store->stats().value().bytes, 20 + static_cast<std::int64_t>(test_key(1).canonical.size()));
}

TEST_F(ArtifactStore, IsPrivateToItsUser) {
  const std::string file = folder / "a" / "b" / "kernels.sqlite";
  const auto store = open(file);
  store->insert(test_key(1), test_artifact(test_key(1)));
  EXPECT_EQ(mode_of(folder / "a"), 0700u);
  EXPECT_EQ(mode_of(folder / "a" / "b"), 0700u);
  EXPECT_EQ(mode_of(file), 0600u);
  EXPECT_EQ(mode_of(file + "-wal"), 0600u);
}

TEST_F(ArtifactStore, CollisionIsAMiss) {
  const auto store = open();
  store->insert(test_key(1), test_artifact(test_key(1)));
  ArtifactKey other = test_key(2);
  other.hex = test_key(1).hex;
  const Result<Artifact> found = store->find(other);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message(), "another kernel with the same hash is cached");
  store->insert(other, test_artifact(test_key(2)));
  EXPECT_TRUE(store->find(other));
  EXPECT_FALSE(store->find(test_key(1)));
}

TEST_F(ArtifactStore, EveryMissSaysWhy) {
  const auto store = open();
  const auto reason = [&](const ArtifactKey& key) { return store->find(key).error().message(); };
  EXPECT_EQ(reason(test_key(1)), "not in the cache");
  store->insert(test_key(1), test_artifact(test_key(1)));
  EXPECT_EQ(reason(test_key(2)), "not in the cache");
  EXPECT_EQ(reason(test_key(1, 8)), "cached for another schedule");
  EXPECT_EQ(reason(test_key(1, 6, Isa::X86_64_V4)), "cached for another target");
  EXPECT_EQ(reason(test_key(1, 6, Isa::X86_64_V3, "23.0")), "cached for another LLVM version");
  // The closest of several is named.
  store->insert(test_key(1, 8, Isa::X86_64_V4), test_artifact(test_key(1, 8, Isa::X86_64_V4)));
  EXPECT_EQ(reason(test_key(1, 9)), "cached for another schedule");
}

TEST_F(ArtifactStore, EvictsTheLeastRecentlyUsed) {
  const auto store = open(path(), 40'000);
  for (int i = 0; i < 10; ++i) store->insert(test_key(i), test_artifact(test_key(i)));
  EXPECT_TRUE(holds(*store, test_key(0)));
  EXPECT_TRUE(holds(*store, test_key(3)));
  for (int i = 10; i < 15; ++i) store->insert(test_key(i), test_artifact(test_key(i)));
  EXPECT_LE(store->stats().value().bytes, 40'000);
  EXPECT_TRUE(store->find(test_key(0)));
  EXPECT_FALSE(store->find(test_key(1)));
  EXPECT_FALSE(store->find(test_key(2)));
  EXPECT_TRUE(store->find(test_key(3)));
  EXPECT_TRUE(store->find(test_key(14)));
}

TEST_F(ArtifactStore, StaysBoundedUnderChurn) {
  const auto store = open(path(), 100'000);
  for (int i = 0; i < 400; ++i) store->insert(test_key(i), test_artifact(test_key(i)));
  const StoreStats stats = store->stats().value();
  EXPECT_LE(stats.bytes, 100'000);
  EXPECT_GE(stats.bytes, 80'000);
  EXPECT_LE(stats.file_bytes, 200'000);
}

TEST_F(ArtifactStore, WritesAccessTimesWhenItCloses) {
  {
    const auto store = open();
    for (int i = 0; i < 3; ++i) store->insert(test_key(i), test_artifact(test_key(i)));
  }
  {
    const auto store = open();
    EXPECT_TRUE(store->find(test_key(1)));
  }
  EXPECT_EQ(open()->list().value().front().key, test_key(1).hex);
}

TEST_F(ArtifactStore, RecentUsesAreNotWrittenAgain) {
  {
    open()->insert(test_key(1), test_artifact(test_key(1)));
  }
  const auto accessed = [&] { return open()->list().value().front().accessed; };
  const std::int64_t before = accessed();
  {
    StoreOptions options;
    options.path = path();
    Store store(options);
    EXPECT_TRUE(holds(store, test_key(1)));
  }
  EXPECT_EQ(accessed(), before);
  {
    EXPECT_TRUE(holds(*open(), test_key(1)));
  }
  EXPECT_GT(accessed(), before);
}

TEST_F(ArtifactStore, RefusesWhatWouldFillIt) {
  const auto store = open(path(), 10'000);
  store->insert(test_key(1), test_artifact(test_key(1)));
  store->insert(test_key(2), test_artifact(test_key(2), 100));
  EXPECT_FALSE(store->find(test_key(1)));
  EXPECT_TRUE(holds(*store, test_key(2), 100));
  EXPECT_TRUE(logged("is not kept"));
}

TEST_F(ArtifactStore, ListsAndCollects) {
  const auto store = open();
  for (int i = 0; i < 5; ++i) store->insert(test_key(i), test_artifact(test_key(i)));
  const std::vector<StoreEntry> entries = store->list().value();
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[0].key, test_key(4).hex);
  EXPECT_EQ(entries[0].llvm_version, "22.1");
  EXPECT_TRUE(entries[0].from_this_generator);
  EXPECT_EQ(entries[0].facts.spills, 3);
  EXPECT_EQ(entries[0].facts.code_bytes, 3000);
  const std::int64_t before = store->stats().value().file_bytes;
  EXPECT_EQ(store->collect(0).value(), 5);
  EXPECT_EQ(store->stats().value().artifacts, 0);
  EXPECT_EQ(store->stats().value().bytes, 0);
  EXPECT_LT(store->stats().value().file_bytes, before);
}

TEST_F(ArtifactStore, VerifyFindsNothingInASoundFile) {
  const auto store = open();
  for (int i = 0; i < 5; ++i) store->insert(test_key(i), test_artifact(test_key(i)));
  const StoreCheck check = store->verify().value();
  EXPECT_EQ(check.checked, 5);
  EXPECT_EQ(check.removed, 0);
}

TEST_F(ArtifactStore, ExportServesAsLayer) {
  {
    const auto store = open();
    for (int i = 0; i < 5; ++i) store->insert(test_key(i), test_artifact(test_key(i)));
    const StoreTransfer transfer = store->export_to(path("layer.kiln")).value();
    EXPECT_EQ(transfer.copied, 5);
    EXPECT_EQ(transfer.refused, 0);
  }
  EXPECT_FALSE(std::filesystem::exists(path("layer.kiln-wal")));
  const auto store = open(path("other.sqlite"), 64 << 20, {path("layer.kiln")});
  EXPECT_TRUE(holds(*store, test_key(3)));
  EXPECT_FALSE(store->find(test_key(7)));
  EXPECT_EQ(store->find(test_key(3, 8)).error().message(), "cached for another schedule");
  EXPECT_EQ(store->stats().value().artifacts, 0);
  EXPECT_TRUE(log.empty());
}

TEST_F(ArtifactStore, ImportAddsWhatIsMissing) {
  {
    const auto store = open();
    for (int i = 0; i < 5; ++i) store->insert(test_key(i), test_artifact(test_key(i)));
    (void)store->export_to(path("exported")).value();
  }
  const auto store = open(path("other.sqlite"));
  store->insert(test_key(2), test_artifact(test_key(2)));
  const StoreTransfer transfer = store->import_from(path("exported")).value();
  EXPECT_EQ(transfer.copied, 4);
  EXPECT_EQ(transfer.present, 1);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(holds(*store, test_key(i)));
}

TEST_F(ArtifactStore, ImportAndExportReportBadPathsAndLiveOn) {
  const auto store = open();
  store->insert(test_key(1), test_artifact(test_key(1)));
  EXPECT_FALSE(store->import_from(path("missing")));
  EXPECT_FALSE(store->import_from(path()));  // in use, so not a layer
  EXPECT_FALSE(store->export_to(path("no/such/folder/file")));
  EXPECT_FALSE(store->export_to(folder.string()));
  EXPECT_TRUE(holds(*store, test_key(1)));
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++files;
  EXPECT_EQ(files, 3);  // the cache and its two side files
}

TEST_F(ArtifactStore, LayersThatAreMissingAreSkipped) {
  const auto store = open(path(), 64 << 20, {path("missing")});
  EXPECT_FALSE(store->find(test_key(1)));
  EXPECT_FALSE(store->find(test_key(2)));
  EXPECT_EQ(log.size(), 1u);
  EXPECT_TRUE(logged("layer not used"));
}

TEST_F(ArtifactStore, ServesManyThreads) {
  const auto store = open();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const ArtifactKey key = test_key((i * 8 + t) % 60);
        if (store->find(key) && !holds(*store, key)) ++wrong;
        store->insert(key, test_artifact(key));
        if (!holds(*store, key)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store->stats().value().artifacts, 60);
}

}  // namespace
}  // namespace kiln::jit
