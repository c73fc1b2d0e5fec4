// The command line as the verbs describe it. CLI11 does the work, but only
// arguments.cc includes it: its header takes longer to compile than a verb.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fedmrn::cli {

// Text for people that says "fedmrn run", with the name under which the program
// was started: users build programs of their own around ours.
std::string AsTyped(std::string text);

// A flag, option or word that a verb takes; a handle, as Verb is. Values that
// it refuses end the program before any verb begins.
class Argument {
 public:
  explicit Argument(CLI::Option* option) : option_(option) {}

  Argument Required() const;
  Argument Between(int least, int most) const;
  Argument Positive() const;
  Argument OneOf(const std::vector<std::string>& choices) const;
  // An empty answer is a yes, any other says why not.
  Argument Check(
      std::function<std::string(const std::string& value)> refuse) const;
  // Each value of a list needs its option, so that a word may follow.
  Argument OneEach() const;

  // What the help says of the value: its type, all about it, its default; and
  // the heading above it.
  Argument Type(const std::string& type) const;
  Argument Text(const std::string& text) const;
  Argument ShowDefault() const;
  Argument Group(const std::string& heading) const;

 private:
  CLI::Option* option_;
};

class Verb {
 public:
  Verb(CLI::App* app, int* exit_code) : app_(app), exit_code_(exit_code) {}

  Verb AddVerb(const std::string& name, const std::string& summary) const;
  void NeedsVerb() const;  // one of those that were added to it
  void Footer(const std::string& text) const;
  // The verb's work, when everything has been parsed; gives the exit code.
  void Do(std::function<int()> work) const;

  // `value` is its default, and must live until the verb has done its work. T:
  // a number, std::string, or std::vector<std::string>. A name without dashes
  // is a word by its position.
  template <typename T>
  Argument AddOption(const std::string& name, T& value,
                     const std::string& help) const;
  Argument AddFlag(const std::string& name, bool& value,
                   const std::string& help) const;
  // For what counts in the order of the command line.
  Argument OnOption(const std::string& name,
                    std::function<void(const std::string& value)> then,
                    const std::string& help) const;
  Argument OnFlag(const std::string& name, std::function<void()> then,
                  const std::string& help) const;

 private:
  CLI::App* app_;
  int* exit_code_;  // of the program
};

class Program {
 public:
  // --version prints `version`, with --json what `details` gives.
  Program(const std::string& name, const std::string& version,
          const std::function<std::string()>& details,
          const std::string& summary);
  ~Program();

  Verb verb() { return Verb(app_.get(), &exit_code_); }
  // Parses, lets the verb work, and gives the exit code.
  int Run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  bool json_ = false;
  int exit_code_ = 0;
};

}  // namespace fedmrn::cli
