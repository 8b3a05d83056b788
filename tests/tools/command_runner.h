// Runs the built `kiln` command as a user does: in a process of its own, seen through its exit status,
// standard output and standard error.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kiln::tools {

struct CommandResult {
  int status = -1;
  std::string out, err;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::ptrdiff_t count_lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

// A folder of its own for each test, with the default kernel cache inside.
class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    std::string pattern = testing::TempDir() + "kiln_command_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~CommandTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  static std::string digits(const std::string& name) {
    return std::string(KILN_SOURCE_DIR) + "/examples/digits/" + name;
  }
  static std::string golden(const std::string& name) {
    return std::string(KILN_SOURCE_DIR) + "/tests/golden/tile/" + name;
  }

  CommandResult kiln(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), KILN_COMMAND);
    std::string cache = "XDG_CACHE_HOME=" + folder_.string();
    std::vector<char*> words, variables = {cache.data()};
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (!std::string_view(*variable).starts_with("XDG_CACHE_HOME=")) variables.push_back(*variable);
    }
    variables.push_back(nullptr);

    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, path("stdout").c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, path("stderr").c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t process = 0;
    const int failure = posix_spawn(&process, words[0], &files, nullptr, words.data(), variables.data());
    posix_spawn_file_actions_destroy(&files);
    EXPECT_EQ(failure, 0) << "cannot start " << words[0];
    int status = -1;
    if (failure == 0) waitpid(process, &status, 0);
    return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            .out = read_file(path("stdout")),
            .err = read_file(path("stderr"))};
  }

  // Runs and expects success without a word on standard error; gives standard output.
  std::string succeed(const std::vector<std::string>& arguments) const {
    const CommandResult result = kiln(arguments);
    EXPECT_EQ(result.status, 0) << testing::PrintToString(arguments) << "\n" << result.out;
    EXPECT_EQ(result.err, "") << testing::PrintToString(arguments);
    return result.out;
  }

  // Runs and expects `status`, nothing on standard output, and one line with `message` on standard error.
  void fail(const std::vector<std::string>& arguments, int status, const std::string& message) const {
    const CommandResult result = kiln(arguments);
    SCOPED_TRACE(testing::PrintToString(arguments));
    EXPECT_EQ(result.status, status);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(count_lines(result.err), 1) << result.err;
    EXPECT_TRUE(result.err.starts_with("kiln: ")) << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err << "lacks: " << message;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace kiln::tools
