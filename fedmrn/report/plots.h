// The report's plots.
#pragma once

#include <optional>
#include <string_view>

#include "fedmrn/report/gnuplot.h"
#include "fedmrn/report/groups.h"

namespace fedmrn::report {

enum class Against { kRounds, kUpload };
// Accuracy of what a cell compares, mean of the seeds.
Picture CurvePicture(const Setting& setting, const Cell& cell, Against against);

// FedMRN with parts left out, and masks after training; nothing if there are no
// such runs.
std::optional<Picture> AblationPicture(const Setting& setting,
                                       const Cell& cell);

// Accuracy of `method` against the noise's magnitude, a line per distribution;
// nothing if all its runs have the usual noise.
std::optional<Picture> NoisePicture(const Setting& setting, const Cell& cell,
                                    std::string_view method);

Picture TrainTimePicture(const Setting& setting);
Picture CompressionTimePicture(const Setting& setting);
Picture UploadPicture(const Setting& setting);

}  // namespace fedmrn::report
