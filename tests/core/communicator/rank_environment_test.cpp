// What launchers leave in the environment.
#include "core/communicator/rank_environment.h"

#include "tests/support/error_of.h"

#include <cstdlib>
#include <initializer_list>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;

/// Nothing in the environment but these variables, as far as launchers set them.
RankEnvironment with(std::initializer_list<std::pair<const char*, const char*>> variables) {
  for (const char* name : {"RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",
                           "LOCAL_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_SIZE",
                           "MASTER_ADDR",
                           "MASTER_PORT",
                           "TORCHELASTIC_RUN_ID",
                           "WHISKER_SECRET",
                           "WHISKER_SILENCE_S",
                           "OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK",
                           "PMI_SIZE",
                           "SLURM_PROCID",
                           "SLURM_STEP_NUM_TASKS",
                           "SLURM_LOCALID",
                           "SLURM_STEP_ID",
                           "SLURM_JOB_ID",
                           "SLURM_STEP_NUM_NODES",
                           "SLURM_STEP_NODELIST"}) {
    ::unsetenv(name);
  }
  for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  return rank_environment();
}

TEST(RankEnvironment, NothingIsOneProcess) {
  const RankEnvironment found = with({});
  EXPECT_EQ(found.launcher, Launcher::none);
  EXPECT_EQ(found.world, 1);
}

TEST(RankEnvironment, HalfALauncherStartsNoRunsOfTheirOwn) {
  EXPECT_THAT(error_of([] { with({{"RANK", "0"}}); }),
              HasSubstr("RANK is set and WORLD_SIZE is not"));
  EXPECT_THAT(error_of([] { with({{"WORLD_SIZE", "2"}}); }),
              HasSubstr("WORLD_SIZE is set and RANK is not"));
  EXPECT_THAT(error_of([] { with({{"PMI_SIZE", "2"}}); }),
              HasSubstr("2 processes were started by MPICH's launcher"));
  EXPECT_EQ(with({{"WORLD_SIZE", "1"}, {"PMI_SIZE", "1"}}).world, 1);
  EXPECT_EQ(with({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMI_SIZE", "2"}})
                .world,
            2);
}

TEST(RankEnvironment, TorchrunsStoreKeepsItsPort) {
  const RankEnvironment found = with({{"RANK", "3"},
                                      {"WORLD_SIZE", "4"},
                                      {"LOCAL_RANK", "1"},
                                      {"MASTER_ADDR", "node0"},
                                      {"MASTER_PORT", "4000"},
                                      {"TORCHELASTIC_RUN_ID", "job"}});
  EXPECT_EQ(found.launcher, Launcher::variables);
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.world, 4);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.address, "node0");
  EXPECT_EQ(found.port, 4001);
  EXPECT_EQ(found.secret, "job");
}

TEST(RankEnvironment, SilenceIsASetting) {
  EXPECT_EQ(with({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).silence_s, 20);
  EXPECT_EQ(with({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"WHISKER_SILENCE_S", "600"}}).silence_s,
            600);
  const auto none = [] { with({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"WHISKER_SILENCE_S", "0"}}); };
  EXPECT_THAT(error_of(none),
              HasSubstr("WHISKER_SILENCE_S: expected a number from 4 to 1000000, got"));
}

TEST(RankEnvironment, KnowsWhetherAllRanksAreHere) {
  EXPECT_FALSE(with({{"RANK", "0"}, {"WORLD_SIZE", "4"}}).one_machine) << "nobody said so";
  for (const bool here : {true, false}) {
    const char* const local = here ? "4" : "2";
    EXPECT_EQ(with({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", local}}).one_machine,
              here);
    EXPECT_EQ(with({{"OMPI_COMM_WORLD_RANK", "0"},
                    {"OMPI_COMM_WORLD_SIZE", "4"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", local}})
                  .one_machine,
              here);
    EXPECT_EQ(with({{"SLURM_PROCID", "0"},
                    {"SLURM_STEP_NUM_TASKS", "4"},
                    {"SLURM_STEP_ID", "0"},
                    {"SLURM_STEP_NODELIST", "gpu[1-2]"},
                    {"SLURM_STEP_NUM_NODES", here ? "1" : "2"}})
                  .one_machine,
              here);
  }
}

TEST(RankEnvironment, WithoutAnAddressItIsLoopback) {
  EXPECT_EQ(with({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).address, "127.0.0.1");
}

TEST(RankEnvironment, MpirunIsKnown) {
  const RankEnvironment found = with({{"OMPI_COMM_WORLD_RANK", "5"},
                                      {"OMPI_COMM_WORLD_SIZE", "8"},
                                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  EXPECT_EQ(found.launcher, Launcher::mpirun);
  EXPECT_EQ(found.rank, 5);
  EXPECT_EQ(found.local_rank, 1);
}

TEST(RankEnvironment, SrunNamesTheFirstNodeAndABatchScriptIsNoTask) {
  EXPECT_EQ(with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "16"}}).world, 1);
  const RankEnvironment found = with({{"SLURM_PROCID", "9"},
                                      {"SLURM_STEP_NUM_TASKS", "16"},
                                      {"SLURM_LOCALID", "1"},
                                      {"SLURM_STEP_ID", "0"},
                                      {"SLURM_JOB_ID", "77"},
                                      {"SLURM_STEP_NUM_NODES", "2"},
                                      {"SLURM_STEP_NODELIST", "gpu[07-08]"}});
  EXPECT_EQ(found.launcher, Launcher::srun);
  EXPECT_EQ(found.rank, 9);
  EXPECT_EQ(found.world, 16);
  EXPECT_EQ(found.address, "gpu07");
  EXPECT_EQ(found.secret, "77.0");
  EXPECT_GE(found.port, 20000);
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("rack1-[3,5-9]-ib,x"), "rack1-3-ib");
}

TEST(RankEnvironment, WhatCannotBeIsNamed) {
  EXPECT_THAT(error_of([] {
                with({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
              }),
              HasSubstr("RANK: expected a number from 0 to 1, got '2'"));
  EXPECT_THAT(error_of([] {
                with({{"RANK", "0"}, {"WORLD_SIZE", "two"}});
              }),
              HasSubstr("WORLD_SIZE"));
}

}  // namespace
}  // namespace whisker::test
