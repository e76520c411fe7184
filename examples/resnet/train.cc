// ResNet with Fleet: the counterpart of PaddleClas's tools/train.py. The same
// program is one process, a rank of a collective job, and every role of a job
// with parameter servers:
//
//   train -c CONFIG --data_dir DIR                                  one process
//   oarlock launch --nproc_per_node 2 train -c CONFIG ...           two ranks
//   oarlock launch --ips IP,IP --nproc_per_node 4 train -c CONFIG   two nodes
//   oarlock launch --server_num 2 --worker_num 2 train -c CONFIG    with
//   servers

#include <utility>

#include "examples/resnet/resnet.h"

int main(int argc, char** argv) {
  auto parsed = images::ParseResNetArgs(argc, argv);
  const oarlock::flags::CommandSyntax syntax = images::ResNetSyntax();
  if (!parsed.ok())
    return oarlock::flags::ReportUsageError(syntax, parsed.status());
  return images::Main(syntax, images::ResNetExperiment(parsed->network),
                      std::move(parsed->args));
}
