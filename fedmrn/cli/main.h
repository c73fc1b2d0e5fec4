// The whole command line of fedmrn, for its own main() and for programs that
// have registered methods, networks or data sets of theirs.
#pragma once

namespace fedmrn::cli {

// Takes what main() is given and gives what main() returns. Rows are registered
// before.
int Main(int argc, char** argv);

}  // namespace fedmrn::cli
