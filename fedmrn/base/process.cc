#include "fedmrn/base/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>

namespace fedmrn {
namespace {

// Files, not pipes: a program that gives up early is then no signal to us, and
// neither side waits for the other to read.
using File = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

File TemporaryFile() { return {std::tmpfile(), &std::fclose}; }

std::string Contents(std::FILE* file) {
  std::string text;
  std::rewind(file);
  char block[1 << 16];
  while (const size_t got = std::fread(block, 1, sizeof block, file)) {
    text.append(block, got);
  }
  return text;
}

}  // namespace

Result<Finished> RunProgram(const std::vector<std::string>& arguments,
                            std::string_view input) {
  const std::string& name = arguments.at(0);
  const auto failed = [&](ErrorCode code, int why) {
    return Error{code, name + ": cannot be started: " + std::strerror(why)};
  };
  const File in = TemporaryFile(), out = TemporaryFile(), err = TemporaryFile();
  if (!in || !out || !err ||
      std::fwrite(input.data(), 1, input.size(), in.get()) != input.size() ||
      std::fflush(in.get()) != 0) {
    return failed(ErrorCode::kFailed, errno);
  }
  std::rewind(in.get());

  std::vector<char*> words;
  for (const std::string& word : arguments) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(in.get()), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(out.get()), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(err.get()), STDERR_FILENO);
  pid_t child = 0;
  const int why = posix_spawnp(&child, name.c_str(), &actions, nullptr,
                               words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (why != 0) {
    return failed(why == ENOENT ? ErrorCode::kUnavailable : ErrorCode::kFailed,
                  why);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return failed(ErrorCode::kFailed, errno);
  }
  return Finished{
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
      Contents(out.get()), Contents(err.get())};
}

Status TryInChild(const std::function<void()>& work) {
  constexpr unsigned kPatienceSeconds = 60;
  const pid_t child = fork();
  if (child < 0) {
    return Error{ErrorCode::kFailed, std::string("cannot start a process: ") +
                                         std::strerror(errno)};
  }
  if (child == 0) {
    const rlimit no_core_file{};
    setrlimit(RLIMIT_CORE, &no_core_file);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    alarm(kPatienceSeconds);
    try {
      work();
    } catch (...) {  // it will be thrown again, where it can be told
    }
    _exit(0);  // not what this process does at its end
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return Error{ErrorCode::kFailed, std::strerror(errno)};
    }
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) != SIGALRM) {
    return Error{ErrorCode::kBadValue, strsignal(WTERMSIG(status))};
  }
  // A sanitizer that found something.
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
    return Error{ErrorCode::kBadValue,
                 "exit code " + std::to_string(WEXITSTATUS(status))};
  }
  return Ok();
}

}  // namespace fedmrn
