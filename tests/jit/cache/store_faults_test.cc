// The cache under damage, full disks, hostile files, crashes and forks: always a miss or the right answer.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "jit/cache/sqlite.h"
#include "jit/cache/store.h"
#include "tests/jit/cache/store_fixture.h"

namespace kiln::jit {
namespace {

class StoreFaults : public StoreTest {
 protected:
  static constexpr int kArtifacts = 12;

  // A closed file with `kArtifacts` Artifacts.
  std::string sound_file() {
    const auto store = open();
    for (int i = 0; i < kArtifacts; ++i) store->insert(test_key(i), test_artifact(test_key(i)));
    return path();
  }
  static std::string content(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  static void write(const std::string& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    chmod(file.c_str(), 0600);
  }
  // Every lookup is right or a miss, whatever `file` contains, and using it again stays that way.
  void expect_harmless(const std::string& file, const std::string& what) {
    for (int round = 0; round < 2; ++round) {
      const auto store = open(file);
      for (int i = 0; i < kArtifacts; ++i) {
        if (const Result<Artifact> found = store->find(test_key(i))) {
          EXPECT_TRUE(same(*found, test_artifact(test_key(i)))) << what;
        }
      }
      store->insert(test_key(99), test_artifact(test_key(99)));
      if (const Result<Artifact> found = store->find(test_key(99))) {
        EXPECT_TRUE(same(*found, test_artifact(test_key(99)))) << what;
      }
    }
    EXPECT_LE(log.size(), 4u) << what;
    log.clear();
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) std::filesystem::remove(file + suffix);
  }
};

TEST_F(StoreFaults, TruncatedAtAnyLength) {
  const std::string bytes = content(sound_file());
  std::vector<std::size_t> lengths = {0, 1, 15, 16, 50, 99, 100, 101, 511, 512, 1024, 4095, 4096, 4097, 8192};
  for (std::size_t i = 1; i < 24; ++i) lengths.push_back(bytes.size() * i / 24);
  lengths.push_back(bytes.size() - 1);
  for (const std::size_t length : lengths) {
    write(path("cut"), bytes.substr(0, length));
    expect_harmless(path("cut"), "cut to " + std::to_string(length));
  }
}

TEST_F(StoreFaults, FlippedBits) {
  const std::string bytes = content(sound_file());
  std::mt19937 random(1);
  for (int i = 0; i < 120; ++i) {
    std::string damaged = bytes;
    // Half of the flips hit the pages with the header, the schema and the roots of the trees.
    const std::size_t position =
        random() % (i % 2 == 0 ? bytes.size() : std::min<std::size_t>(20'000, bytes.size()));
    damaged[position] = static_cast<char>(damaged[position] ^ (1 << random() % 8));
    write(path("flip"), damaged);
    expect_harmless(path("flip"), "bit of byte " + std::to_string(position));
  }
}

TEST_F(StoreFaults, OverwrittenPages) {
  const std::string bytes = content(sound_file());
  std::mt19937 random(2);
  for (std::size_t page = 0; page * 4096 < bytes.size(); ++page) {
    std::string damaged = bytes;
    for (std::size_t i = 0; i < 4096; ++i) damaged[page * 4096 + i] = static_cast<char>(random());
    write(path("page"), damaged);
    expect_harmless(path("page"), "page " + std::to_string(page));
  }
}

TEST_F(StoreFaults, DamagedFileOfOursWorksAgain) {
  const std::string bytes = content(sound_file());
  write(path("half"), bytes.substr(0, bytes.size() / 2));
  {
    const auto store = open(path("half"));
    (void)store->find(test_key(0));
    EXPECT_EQ(log.size(), 1u);
    EXPECT_TRUE(logged("is damaged"));
    store->insert(test_key(0), test_artifact(test_key(0)));
    EXPECT_TRUE(holds(*store, test_key(0)));
  }
  EXPECT_TRUE(holds(*open(path("half")), test_key(0)));
}

// What the damage did not touch is kept, in the same process and for the next.
TEST_F(StoreFaults, OneDamagedPageLosesFewArtifacts) {
  const std::string bytes = content(sound_file());
  for (std::size_t page = 1; page < bytes.size() / 4096; page += 3) {
    SCOPED_TRACE(page);
    std::string damaged = bytes;
    std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(page * 4096), 4096, '\xa5');
    write(path("page"), damaged);
    log.clear();
    int kept = 0;
    {
      const auto store = open(path("page"));
      for (int i = 0; i < kArtifacts; ++i) {
        if (const auto found = store->find(test_key(i))) {
          EXPECT_TRUE(same(*found, test_artifact(test_key(i))));
        } else {
          store->insert(test_key(i), test_artifact(test_key(i)));
        }
      }
      EXPECT_LE(log.size(), 2u);
    }
    const auto store = open(path("page"));
    for (int i = 0; i < kArtifacts; ++i) kept += holds(*store, test_key(i));
    EXPECT_EQ(kept, kArtifacts);
    EXPECT_EQ(store->verify().value().removed, 0);
  }
}

TEST_F(StoreFaults, VerifyRebuildsADamagedFile) {
  std::string bytes = content(sound_file());
  std::fill_n(bytes.begin() + 5 * 4096, 4096, '\xa5');
  write(path("page"), bytes);
  const auto store = open(path("page"));
  const StoreCheck check = store->verify().value();
  EXPECT_TRUE(check.rebuilt || check.removed > 0);
  EXPECT_EQ(check.rebuilt, logged("is damaged"));
  EXPECT_GT(check.checked, 0);
  EXPECT_FALSE(open(path("page"))->verify().value().rebuilt);
}

// What no checksum covers: times, and the sums that eviction goes by.
TEST_F(StoreFaults, ImpossibleNumbersAreFound) {
  {
    sqlite::Connection file(sound_file(), sqlite::Mode::Write);
    file.run("UPDATE artifacts SET accessed = 4611686018427387904 WHERE id = 1");
    file.run("UPDATE artifacts SET accessed = -1 WHERE id = 2");
    file.run("UPDATE artifacts SET bytes = 1 WHERE id = 3");
    file.run("UPDATE totals SET bytes = 4611686018427387904");
  }
  const auto store = open();
  int damaged = 0;
  for (const StoreEntry& entry : store->list().value()) damaged += entry.damaged;
  EXPECT_EQ(damaged, 3);
  // The sum is wrong: nothing is evicted for it.
  store->insert(test_key(1000), test_artifact(test_key(1000)));
  EXPECT_EQ(store->stats().value().artifacts, kArtifacts + 1);
  const StoreCheck check = store->verify().value();
  EXPECT_EQ(check.removed, 3);
  EXPECT_FALSE(check.rebuilt);
  std::int64_t bytes = 0;
  for (const StoreEntry& entry : store->list().value()) bytes += entry.bytes;
  EXPECT_EQ(store->stats().value().bytes, bytes);
}

TEST_F(StoreFaults, VerifyRemovesDamagedCode) {
  std::string bytes = content(sound_file());
  const Artifact victim = test_artifact(test_key(5));
  const std::string code(reinterpret_cast<const char*>(victim.object.data()), 100);
  const std::size_t position = bytes.find(code);
  ASSERT_NE(position, std::string::npos);
  bytes[position] = static_cast<char>(bytes[position] ^ 1);
  write(path("code"), bytes);
  const auto store = open(path("code"));
  const StoreCheck check = store->verify().value();
  EXPECT_EQ(check.checked, kArtifacts);
  EXPECT_EQ(check.removed, 1);
  EXPECT_FALSE(store->find(test_key(5)));
  EXPECT_TRUE(holds(*store, test_key(6)));
}

TEST_F(StoreFaults, ForeignFilesAreLeftAlone) {
  write(path("text"), std::string(10'000, 'x'));
  {
    sqlite::Connection other(
        [&] {
          write(path("other"), "");
          return path("other");
        }(),
        sqlite::Mode::Write);
    other.run("CREATE TABLE people (name TEXT); INSERT INTO people VALUES ('Ada')");
  }
  for (const std::string& name : {path("text"), path("other")}) {
    const std::string before = content(name);
    {
      const auto store = open(name);
      EXPECT_FALSE(store->find(test_key(0)));
      store->insert(test_key(0), test_artifact(test_key(0)));
      EXPECT_EQ(store->find(test_key(0)).error().code(), ErrorCode::Io);
    }
    EXPECT_EQ(content(name), before);
    EXPECT_EQ(log.size(), 1u);
    EXPECT_TRUE(logged("is not a kernel cache"));
    log.clear();
  }
}

TEST_F(StoreFaults, ForeignVersionIsAMiss) {
  {
    sqlite::Connection(sound_file(), sqlite::Mode::Write).run("PRAGMA user_version = 999");
  }
  const auto store = open();
  EXPECT_FALSE(store->find(test_key(0)));
  store->insert(test_key(0), test_artifact(test_key(0)));
  EXPECT_FALSE(store->find(test_key(0)));
  EXPECT_EQ(log.size(), 1u);
  EXPECT_TRUE(logged("has format version 999, expected 1"));
}

TEST_F(StoreFaults, FilesThatOthersCanWriteAreRefused) {
  chmod(sound_file().c_str(), 0666);
  EXPECT_FALSE(open()->find(test_key(0)));
  EXPECT_TRUE(logged("others can write"));
  chmod(path().c_str(), 0600);
  EXPECT_TRUE(open()->find(test_key(0)));
  chmod(folder.c_str(), 0777);
  EXPECT_FALSE(open()->find(test_key(0)));
  chmod(folder.c_str(), 01777);
  EXPECT_TRUE(open()->find(test_key(0)));
}

TEST_F(StoreFaults, SideFilesThatOthersCanWriteAreRefused) {
  sound_file();
  write(path() + "-wal", "");
  chmod((path() + "-wal").c_str(), 0666);
  EXPECT_FALSE(open()->find(test_key(0)));
  EXPECT_TRUE(logged("-wal"));
}

TEST_F(StoreFaults, LinksAndSpecialFilesAreRefused) {
  sound_file();
  std::filesystem::create_symlink(path(), path("link"));
  EXPECT_FALSE(open(path("link"))->find(test_key(0)));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(open(path("pipe"))->find(test_key(0)));
  EXPECT_FALSE(open(folder.string())->find(test_key(0)));
  EXPECT_FALSE(open(folder.string() + "/")->find(test_key(0)));
  EXPECT_FALSE(open("")->find(test_key(0)));
  // A link on the way to the folder is the user's own business.
  std::filesystem::create_directory_symlink(folder, path("here"));
  EXPECT_TRUE(open(path("here/kernels.sqlite"))->find(test_key(0)));
}

TEST_F(StoreFaults, FilesOfAnotherUserAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  sound_file();
  ASSERT_EQ(chown(path().c_str(), 12345, 12345), 0);
  EXPECT_FALSE(open()->find(test_key(0)));
  EXPECT_TRUE(logged("belongs to user 12345"));
}

// Root may write everywhere, so these run as another user if possible.
bool become_plain_user(const std::filesystem::path& folder) {
  if (geteuid() != 0) return true;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (chown(entry.path().c_str(), 65534, 65534) != 0) return false;
  }
  return chown(folder.c_str(), 65534, 65534) == 0 && setgid(65534) == 0 && setuid(65534) == 0;
}

TEST_F(StoreFaults, ReadOnlyFolderIsAMiss) {
  EXPECT_TRUE(in_child([&] {
    if (!become_plain_user(folder) || chmod(folder.c_str(), 0500) != 0) return false;
    {
      const auto store = open();
      store->insert(test_key(0), test_artifact(test_key(0)));
      if (store->find(test_key(0)) || log.size() != 1 || !logged("cannot create")) return false;
    }
    const auto below = open(folder / "a" / "b" / "kernels.sqlite");
    return !below->find(test_key(0)) && chmod(folder.c_str(), 0700) == 0;
  }));
}

TEST_F(StoreFaults, ReadOnlyFileIsAMiss) {
  sound_file();
  EXPECT_TRUE(in_child([&] {
    if (!become_plain_user(folder) || chmod(path().c_str(), 0400) != 0 || chmod(folder.c_str(), 0500) != 0) {
      return false;
    }
    const auto store = open();
    store->insert(test_key(0), test_artifact(test_key(0)));
    return !store->find(test_key(0)) && log.size() == 1 && chmod(folder.c_str(), 0700) == 0;
  }));
}

// Inserts until well past the space there is; what is in stays readable.
bool survives_full_disk(Store& store, std::vector<std::string>& log) {
  for (int i = 0; i < 400; ++i) store.insert(test_key(i), test_artifact(test_key(i)));
  if (log.size() != 1) return false;
  for (int i = 0; i < 400; ++i) {
    if (const Result<Artifact> found = store.find(test_key(i));
        found && !same(*found, test_artifact(test_key(i)))) {
      return false;
    }
  }
  return holds(store, test_key(0)) && !store.find(test_key(399)) && log.size() == 1;
}

TEST_F(StoreFaults, FileSizeLimitStopsWritingOnly) {
  EXPECT_TRUE(in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const auto store = open();
    const rlimit limit = {300'000, 300'000};
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 && survives_full_disk(*store, log);
  }));
  EXPECT_TRUE(open()->verify());
  EXPECT_TRUE(holds(*open(), test_key(0)));
}

TEST_F(StoreFaults, FullDiskStopsWritingOnly) {
  const std::string disk = folder / "disk";
  std::filesystem::create_directory(disk);
  if (mount("kiln", disk.c_str(), "tmpfs", 0, "size=600k,mode=0700") != 0) {
    GTEST_SKIP() << "cannot mount a small file system here";
  }
  {
    const auto store = open(disk + "/kernels.sqlite");
    EXPECT_TRUE(survives_full_disk(*store, log));
  }
  {
    EXPECT_TRUE(holds(*open(disk + "/kernels.sqlite"), test_key(0)));
  }
  EXPECT_EQ(umount(disk.c_str()), 0);
}

TEST_F(StoreFaults, TwoProcessesWriteAtOnce) {
  std::vector<pid_t> children;
  for (int child = 0; child < 3; ++child) {
    const pid_t pid = fork();
    if (pid == 0) {
      const auto store = open();
      bool good = true;
      for (int i = 0; i < 40; ++i) {
        const ArtifactKey own = test_key(1000 * (child + 1) + i);
        store->insert(own, test_artifact(own));
        store->insert(test_key(i), test_artifact(test_key(i)));
        good = good && holds(*store, own) && holds(*store, test_key(i));
      }
      _exit(good && log.empty() ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const auto store = open();
  EXPECT_EQ(store->stats().value().artifacts, 4 * 40);
  EXPECT_EQ(store->verify().value().removed, 0);
}

TEST_F(StoreFaults, KilledWhileWriting) {
  int written = 0;
  for (int round = 0; round < 6; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      const auto store = open();
      for (int i = written;; ++i) {
        store->insert(test_key(i), test_artifact(test_key(i)));
        if (::write(pipe_ends[1], "x", 1) != 1) _exit(1);
      }
    }
    close(pipe_ends[1]);
    char token;
    for (int i = 0; i < 3 + round * 7; ++i) {
      ASSERT_EQ(read(pipe_ends[0], &token, 1), 1);
      ++written;
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(pipe_ends[0]);
    const auto store = open();
    for (int i = 0; i < written; ++i) EXPECT_TRUE(holds(*store, test_key(i))) << i;
    EXPECT_EQ(store->verify().value().removed, 0);
  }
  EXPECT_TRUE(log.empty());
}

TEST_F(StoreFaults, WorksOnBothSidesOfAFork) {
  const auto store = open();
  store->insert(test_key(0), test_artifact(test_key(0)));
  EXPECT_TRUE(in_child([&] {
    store->insert(test_key(1), test_artifact(test_key(1)));
    return holds(*store, test_key(0)) && holds(*store, test_key(1));
  }));
  EXPECT_TRUE(holds(*store, test_key(0)));
  EXPECT_TRUE(holds(*store, test_key(1)));
  EXPECT_TRUE(in_child([&] { return holds(*store, test_key(1)); }));
  EXPECT_EQ(store->verify().value().checked, 2);
}

TEST_F(StoreFaults, ForksWhileOtherThreadsUseIt) {
  const auto store = open();
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) {
        const ArtifactKey key = test_key(100 * t + i % 50);
        store->insert(key, test_artifact(key));
        if (!holds(*store, key)) ++wrong;
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(in_child([&] {
      store->insert(test_key(1000 + i), test_artifact(test_key(1000 + i)));
      return holds(*store, test_key(1000 + i));
    }));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(holds(*store, test_key(1000 + i)));
  EXPECT_EQ(store->verify().value().removed, 0);
}

}  // namespace
}  // namespace kiln::jit
