// The files of an input, in messages.

#ifndef OARLOCK_CLIENT_MESSAGES_INPUT_MESSAGES_H_
#define OARLOCK_CLIENT_MESSAGES_INPUT_MESSAGES_H_

#include <string>
#include <vector>

#include "client/job_client.h"
#include "proto/v1/coordinator_inputs.pb.h"
#include "proto/v1/listed_file.pb.h"

namespace oarlock::client {

// Parts of at most 1 MiB, or of one file; at least one. Who sends them fills in
// the worker.
std::vector<v1::DefineInputRequest> InputParts(
    const std::string& name, const std::vector<v1::ListedFile>& files);

// Appends a part, and tells whether it is the last one.
bool AppendPart(const v1::GetInputResponse& part, JobClient::Input* input);

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_MESSAGES_INPUT_MESSAGES_H_
