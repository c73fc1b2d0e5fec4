// The fedmrn program with a data set, a network and a method of one's own.
#include "fedmrn/cli/main.h"

#include "mine.h"

int main(int argc, char** argv) {
  using namespace fedmrn;
  train::RegisterDataSet({.name = "csv",
                          .summary = "numbers from a CSV file, class last",
                          .model = "softmax",
                          .load = mine::LoadCsv,
                          .by_hand = "your own: --data.path FILE.csv",
                          .input = "numbers"});
  train::RegisterModel({.name = "softmax",
                        .summary = "one linear layer",
                        .make = mine::MakeSoftmax});
  train::RegisterMethod({.name = "fedprox",
                         .summary = "FedProx, its update as signs (DRIVE)",
                         .codec = CodecId::kDrive,
                         .lr = 0.03,
                         .magnitude = 0,
                         .train = mine::TrainFedProx,
                         .keys = {&mine::kFedProxMu}});
  return cli::Main(argc, argv);
}
