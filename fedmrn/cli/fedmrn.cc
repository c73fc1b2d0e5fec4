// The fedmrn program.
#include "fedmrn/cli/main.h"

int main(int argc, char** argv) { return fedmrn::cli::Main(argc, argv); }
