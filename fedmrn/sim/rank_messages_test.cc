#include "fedmrn/sim/rank_messages.h"

#include "gtest/gtest.h"

namespace fedmrn::sim {
namespace {

Hello SomeHello(const std::vector<std::string>& settings = {}) {
  Hello hello;
  hello.version = "0.1.0";
  hello.host = "node7";
  hello.config = ConfigToml(*ParseConfig("", "", settings));
  hello.digests = {std::string(64, 'a'), std::string(64, 'b')};
  hello.vector_units = "AVX2 (oneDNN 0x7)";
  hello.workers = 12;
  return hello;
}

std::string Refusal(const Hello& other, bool mixed = false) {
  const Status same = CheckSame(SomeHello(), other, 3, mixed);
  return same ? "" : same.error().message;
}

TEST(RankMessages, Hello) {
  const Hello sent = SomeHello();
  const Bytes message = MessageOf(sent);
  EXPECT_EQ(WordOf(message), Word::kHello);
  const Hello got = ParseHello(message);
  EXPECT_EQ(got.version, sent.version);
  EXPECT_EQ(got.host, sent.host);
  EXPECT_EQ(got.config, sent.config);
  EXPECT_EQ(got.digests.data_sha256, sent.digests.data_sha256);
  EXPECT_EQ(got.digests.model_file_sha256, sent.digests.model_file_sha256);
  EXPECT_EQ(got.vector_units, sent.vector_units);
  EXPECT_EQ(got.workers, 12u);
  EXPECT_EQ(Refusal(got), "");
  // One of another version may end anywhere; the workers come last.
  for (size_t size = 1; size < message.size() - sizeof(uint32_t); ++size) {
    EXPECT_NE(Refusal(ParseHello(ByteView(message).first(size))), "") << size;
  }
}

TEST(RankMessages, RefusesWhatComputesSomethingElse) {
  Hello other = SomeHello();
  other.version = "0.2.0";
  other.config = "what this version cannot read";
  EXPECT_EQ(Refusal(other),
            "rank 3 (node7) runs fedmrn 0.2.0, rank 0 (node7) runs 0.1.0; "
            "start all ranks with the same program");

  other = SomeHello({"train.lr=0.5", "run.workers=3"});
  EXPECT_EQ(Refusal(other),
            "rank 3 (node7) has another config:\n  train.lr: 0.5 there, 0.1 at "
            "rank 0\nstart all ranks with the same command");
  // What does not change results may differ.
  EXPECT_EQ(Refusal(SomeHello({"run.workers=3"})), "");

  other = SomeHello();
  other.digests.data_sha256[0] = 'c';
  EXPECT_EQ(Refusal(other),
            "rank 3 (node7) has another data set: its SHA-256 is caaaaaaaaaaa, "
            "that of rank 0 (node7) aaaaaaaaaaaa; give all ranks the same "
            "files");
  other = SomeHello();
  other.digests.model_file_sha256 = "";
  EXPECT_NE(Refusal(other).find("another model file: its SHA-256 is none"),
            std::string::npos);

  other = SomeHello();
  other.vector_units = "AVX3 (oneDNN 0x27)";
  EXPECT_NE(Refusal(other).find("FEDMRN_SIMD=AVX2"), std::string::npos);
  EXPECT_EQ(Refusal(other, /*mixed=*/true), "");

  other = Hello{.version = "", .host = "node7", .failure = "no such file"};
  EXPECT_EQ(Refusal(other), "rank 3 (node7): no such file");
}

TEST(RankMessages, Answers) {
  const Crew::Done sent = {
      7, client::Answer{{1, 2, 3}, 0.5, 0.25, 2, 0.75}, {1, -2}};
  const Crew::Done got = ParseAnswer(MessageOf(sent));
  ASSERT_TRUE(got.answer);
  EXPECT_EQ(got.client, 7u);
  EXPECT_EQ(got.answer->frame, (Bytes{1, 2, 3}));
  EXPECT_EQ(got.answer->train_s, 0.5);
  EXPECT_EQ(got.answer->encode_s, 0.25);
  EXPECT_EQ(got.answer->train_loss, 2);
  EXPECT_EQ(got.answer->train_score, 0.75);
  EXPECT_EQ(got.state, (std::vector<float>{1, -2}));

  const Crew::Done failed = ParseAnswer(
      MessageOf(Crew::Done{8, Error{ErrorCode::kNotFinite, "no number"}}));
  ASSERT_FALSE(failed.answer);
  EXPECT_EQ(failed.client, 8u);
  EXPECT_EQ(failed.answer.error().code, ErrorCode::kNotFinite);
  EXPECT_EQ(failed.answer.error().message, "no number");
}

TEST(RankMessages, Orders) {
  const RoundMessage round =
      ParseRound(MessageOf(RoundMessage{3, 1, uint64_t{5} << 32}));
  EXPECT_EQ(round.round, 3u);
  EXPECT_EQ(round.attempt, 1u);
  EXPECT_EQ(round.broadcast_bytes, uint64_t{5} << 32);
  const AskMessage ask = ParseAsk(MessageOf(AskMessage{9, {0.5f}}));
  EXPECT_EQ(ask.client, 9u);
  EXPECT_EQ(ask.state, (std::vector<float>{0.5f}));
  const StepsMessage steps = ParseSteps(MessageOf(StepsMessage{4, 250}));
  EXPECT_EQ(steps.steps, 4u);
  EXPECT_EQ(steps.examples, 250u);
  EXPECT_EQ(ParseFailed(FailedMessage("no memory")), "no memory");
}

}  // namespace
}  // namespace fedmrn::sim
