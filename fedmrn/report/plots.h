// The report's plots.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "fedmrn/report/gnuplot.h"
#include "fedmrn/report/groups.h"

namespace fedmrn::report {

// Groups that one picture of curves can show so that they are told apart; all
// of the cell's are on one sheet or more.
using Sheet = std::vector<const Group*>;
std::vector<Sheet> SheetsOf(const Cell& cell);

enum class Against { kRounds, kUpload };
// Accuracy of the groups of a sheet, mean of the seeds in a band of their
// deviation. `number` counts the cell's sheets, from 1.
Picture CurvePicture(const Setting& setting, const Cell& cell,
                     const Sheet& sheet, size_t number, Against against);
// Accuracy in the last ten rounds against the upload of a whole run, a point
// for each group of a sheet.
Picture TradeOffPicture(const Setting& setting, const Cell& cell,
                        const Sheet& sheet, size_t number);

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
