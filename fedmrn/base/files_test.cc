#include "fedmrn/base/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "fedmrn/base/file_faults.h"
#include "fedmrn/base/sha256.h"
#include "gtest/gtest.h"

namespace fedmrn {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              ("files_" + std::string(test->name()) + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const char* name) const { return folder_ / name; }
  size_t Count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_),
                                             fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(Files, RoundTrip) {
  const std::string path = Path("file");
  for (size_t size : {0, 1, 4095, 4096, 100'000}) {
    Bytes bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 7);
    ASSERT_TRUE(WriteFileAtomically(path, bytes));
    const Result<Bytes> read = ReadFile(path);
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, bytes);
  }
  EXPECT_EQ(Count(), 1u) << "a temporary file was left";
}

TEST_F(Files, ReadsFilesWithoutASize) {
  const Result<Bytes> read = ReadFile("/proc/self/status");
  ASSERT_TRUE(read);
  EXPECT_NE(AsText(*read).find("Pid:"), std::string_view::npos);
}

TEST_F(Files, LeftoverOfACrashIsOverwritten) {
  ASSERT_TRUE(WriteFileAtomically(Path("file"), AsBytes("good")));
  ASSERT_TRUE(WriteFileAtomically(Path("file.tmp"), AsBytes("half, and long")));
  EXPECT_EQ(AsText(*ReadFile(Path("file"))), "good");
  ASSERT_TRUE(WriteFileAtomically(Path("file"), AsBytes("new")));
  EXPECT_EQ(AsText(*ReadFile(Path("file"))), "new");
  EXPECT_EQ(Count(), 1u);
}

TEST_F(Files, ErrorsNameThePathAndTheReason) {
  const Result<Bytes> missing = ReadFile(Path("missing"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(missing.error().ToString(),
            Path("missing") + ": cannot read it: No such file or directory");

  EXPECT_EQ(ReadFile(folder_).error().ToString(),
            folder_.string() + ": cannot read it: Is a directory");

  const Status nowhere = WriteFileAtomically(Path("no/file"), AsBytes("x"));
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(nowhere.error().ToString(),
            Path("no/file") + ": cannot write it: No such file or directory");

  ASSERT_TRUE(WriteFileAtomically(Path("a-file"), AsBytes("x")));
  const Status under = MakeFolder(Path("a-file/folder"));
  ASSERT_FALSE(under);
  EXPECT_EQ(under.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(under.error().message,
            Path("a-file/folder") + ": cannot create it: Not a directory");
  fs::remove(Path("a-file"));

  EXPECT_TRUE(MakeFolder(Path("folder")));
  EXPECT_TRUE(MakeFolder(Path("folder")));
  EXPECT_EQ(WriteFileAtomically(Path("folder"), AsBytes("x")).error().message,
            Path("folder") + ": cannot replace it: Is a directory");
  EXPECT_EQ(Count(), 1u) << "a temporary file was left";
}

TEST_F(Files, ReadsNoMoreThanItShould) {
  ASSERT_TRUE(WriteFileAtomically(Path("file"), AsBytes("four")));
  EXPECT_EQ(AsText(*ReadFile(Path("file"), 4)), "four");
  const Result<Bytes> large = ReadFile(Path("file"), 3);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::kBadFormat);
  EXPECT_EQ(large.error().message, Path("file") + ": is larger than 3 bytes");
  // Files that do not tell their size, and have no end.
  EXPECT_EQ(ReadFile("/dev/zero", 1 << 20).error().code, ErrorCode::kBadFormat);
}

TEST_F(Files, AFullDiskIsNoWrongPath) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  fs::create_symlink("/dev/full", Path("file.tmp"));
  const Status full = WriteFileAtomically(Path("file"), AsBytes("x"));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kFailed);
  EXPECT_EQ(full.error().message,
            Path("file") + ": cannot write it: No space left on device");
}

// Whichever step fails: what was there stays, nothing is left over, and the
// error says where and why.
TEST_F(Files, AFailingDiskLeavesTheOldFile) {
  const std::string path = Path("file");
  ASSERT_TRUE(WriteFileAtomically(path, AsBytes("good")));
  for (const FileStep step :
       {FileStep::kOpen, FileStep::kWrite, FileStep::kSync, FileStep::kClose,
        FileStep::kRename, FileStep::kSyncFolder}) {
    for (const int why : {EIO, ENOSPC, EDQUOT}) {
      const FileFaults faults([&](FileStep asked, const std::string&) {
        return asked == step ? why : 0;
      });
      const bool renamed = step == FileStep::kSyncFolder;
      const Status failed =
          WriteFileAtomically(path, AsBytes(renamed ? "good" : "new"));
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error().code, ErrorCode::kFailed);
      EXPECT_TRUE(failed.error().message.starts_with(
          renamed ? folder_.string() + ": cannot " : path + ": cannot "))
          << failed.error().message;
      EXPECT_TRUE(failed.error().message.ends_with(std::strerror(why)))
          << failed.error().message;
      EXPECT_EQ(AsText(*ReadFile(path)), "good");
      EXPECT_EQ(Count(), 1u) << "a temporary file was left";
    }
  }
  ASSERT_TRUE(WriteFileAtomically(path, AsBytes("new")));
  EXPECT_EQ(AsText(*ReadFile(path)), "new");
}

TEST_F(Files, AGrowingFileThatWasCutOffIsMended) {
  const std::string path = Path("file");
  ASSERT_TRUE(GrowFile(path, AsBytes("one")));
  {
    const FileFaults full([](FileStep step, const std::string&) {
      return step == FileStep::kWrite ? ENOSPC : 0;
    });
    EXPECT_FALSE(GrowFile(path, AsBytes("one two")));
  }
  EXPECT_EQ(AsText(*ReadFile(path)), "one t");
  ASSERT_TRUE(GrowFile(path, AsBytes("one two")));
  EXPECT_EQ(AsText(*ReadFile(path)), "one two");
}

TEST_F(Files, AFolderIsHeldByOneAndNoticesItsEnd) {
  const std::string folder = Path("a/folder");
  const Result<FolderLock> lock = FolderLock::Take(folder);
  ASSERT_TRUE(lock) << lock.error().ToString();
  EXPECT_TRUE(lock->Check());
  const Result<FolderLock> second = FolderLock::Take(folder);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kFailed);
  EXPECT_EQ(second.error().message,
            folder + ": another fedmrn is at work there");

  fs::rename(folder, Path("elsewhere"));
  const std::string gone =
      folder + ": was removed or replaced while fedmrn was at work there";
  EXPECT_EQ(lock->Check().error().message, gone);
  const Result<FolderLock> another = FolderLock::Take(folder);
  ASSERT_TRUE(another);
  EXPECT_TRUE(another->Check());
  EXPECT_EQ(lock->Check().error().message, gone);
}

TEST_F(Files, GrowsInPlaceWhereItCan) {
  const std::string path = Path("file");
  ASSERT_TRUE(GrowFile(path, AsBytes("one")));
  fs::create_hard_link(path, Path("watched"));  // keeps the same file
  ASSERT_TRUE(GrowFile(path, AsBytes("one two")));
  ASSERT_TRUE(GrowFile(path, AsBytes("one two")));
  EXPECT_EQ(AsText(*ReadFile(Path("watched"))), "one two");

  ASSERT_TRUE(GrowFile(path, AsBytes("one")));
  EXPECT_EQ(AsText(*ReadFile(path)), "one");
  ASSERT_TRUE(GrowFile(path, AsBytes("other")));
  EXPECT_EQ(AsText(*ReadFile(path)), "other");
  EXPECT_EQ(AsText(*ReadFile(Path("watched"))), "one two");
}

TEST_F(Files, AppendsToTheFileThatItKnows) {
  const std::string path = Path("file");
  const auto append = [&](uint64_t length, std::string_view more) {
    return *AppendToFile(path, length, AsBytes(more));
  };
  EXPECT_FALSE(append(0, "one"));  // not there
  ASSERT_TRUE(GrowFile(path, AsBytes("one")));
  EXPECT_TRUE(append(3, " two"));
  EXPECT_TRUE(append(7, ""));
  EXPECT_FALSE(append(3, " three"));
  EXPECT_EQ(AsText(*ReadFile(path)), "one two");
  const FileFaults full([](FileStep step, const std::string&) {
    return step == FileStep::kWrite ? ENOSPC : 0;
  });
  EXPECT_FALSE(AppendToFile(path, 7, AsBytes("!!")));
}

// FIPS 180-2, appendix B.
TEST(Sha256, KnownDigests) {
  EXPECT_EQ(Sha256Hex({}),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex(AsBytes("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(Bytes(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace fedmrn
