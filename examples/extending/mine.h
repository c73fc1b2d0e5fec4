// What main.cc registers.
#pragma once

#include "fedmrn/train/data/dataset.h"
#include "fedmrn/train/method/method.h"
#include "fedmrn/train/model/model.h"

namespace mine {

using namespace fedmrn;

Result<train::Data> LoadCsv(const train::DataSet& set,
                            const train::DataSettings& settings);

Result<train::Model> MakeSoftmax(const train::ModelSettings& settings,
                                 const train::Data& data);

extern const train::MethodKey kFedProxMu;
bool TrainFedProx(const train::ClientWork& work, train::LocalModel& local);

}  // namespace mine
