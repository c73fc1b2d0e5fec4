#include "fedmrn/base/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace fedmrn {
namespace {

TEST(RunProgram, GivesInputAndTakesOutput) {
  // More than a pipe holds.
  std::string text(1 << 20, 'x');
  text += '\0';
  const Result<Finished> copied = RunProgram({"cat"}, text);
  ASSERT_TRUE(copied.ok()) << copied.error().message;
  EXPECT_EQ(copied->exit_code, 0);
  EXPECT_EQ(copied->out, text);
  EXPECT_EQ(copied->err, "");
}

TEST(RunProgram, InputThatNobodyReads) {
  const Result<Finished> done = RunProgram({"true"}, std::string(1 << 20, 'x'));
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->exit_code, 0);
}

TEST(RunProgram, TellsHowItEnded) {
  const Result<Finished> failed =
      RunProgram({"sh", "-c", "echo half; echo why >&2; exit 3"});
  ASSERT_TRUE(failed.ok()) << failed.error().message;
  EXPECT_EQ(failed->exit_code, 3);
  EXPECT_EQ(failed->out, "half\n");
  EXPECT_EQ(failed->err, "why\n");
  const Result<Finished> killed = RunProgram({"sh", "-c", "kill -9 $$"});
  ASSERT_TRUE(killed.ok()) << killed.error().message;
  EXPECT_EQ(killed->exit_code, 128 + 9);
}

TEST(RunProgram, NoShellReadsTheArguments) {
  const Result<Finished> echoed =
      RunProgram({"printf", "%s", "$HOME; `id` 'a' > b"});
  ASSERT_TRUE(echoed.ok()) << echoed.error().message;
  EXPECT_EQ(echoed->out, "$HOME; `id` 'a' > b");
}

TEST(RunProgram, MissingProgram) {
  const Result<Finished> missing = RunProgram({"no-such-program-anywhere"});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(missing.error().message,
            "no-such-program-anywhere: cannot be started: No such file or "
            "directory");
}

TEST(TryInChild, WhatDiesThereDoesNotDieHere) {
  const Status died = TryInChild([] { std::raise(SIGKILL); });
  ASSERT_FALSE(died);
  EXPECT_EQ(died.error().code, ErrorCode::kBadValue);
  EXPECT_EQ(died.error().message, "Killed");
  EXPECT_EQ(TryInChild([] { _exit(3); }).error().message, "exit code 3");
}

TEST(TryInChild, NothingOfItIsLeft) {
  int value = 1;
  EXPECT_TRUE(TryInChild([&] { value = 2; }));
  EXPECT_EQ(value, 1);
  EXPECT_TRUE(TryInChild([] { throw std::runtime_error("no"); }));
}

}  // namespace
}  // namespace fedmrn
