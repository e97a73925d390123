#!/usr/bin/env python3
"""scripts/launch.py --launcher local, under a real mpirun."""
import os
import pathlib
import re
import signal
import sys
import time
import unittest

from launching import COUNTS, LAUNCH, LIMIT, MPI, LaunchCase

RANK = "$OMPI_COMM_WORLD_RANK"
# Leaves processes that are hard to end: one in a session of its own, and one that ignores SIGTERM.
CLING = ("setsid sleep 600 & (trap '' TERM INT HUP; echo up; sleep 600) & "
         "trap '' TERM INT HUP; wait; sleep 600")
# Saves its state when it is asked to end.
SAVES = "trap 'sleep 4; echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done"
# The line that tutti logs on a rank that lost rank 1, in double quotes of a shell.
LOST = "2026-11-24 10:51:47.123 tutti[rank " + RANK + "] error: rank 1 is lost: {}"
# A worker that is in MPI; rank 1 dies there by kill -9.
IN_MPI = """
import ctypes, os, signal, time
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(2)
print("still here", flush=True)
os._exit(4)
"""


class Outcome(LaunchCase):
    def test_all_well_is_0(self):
        code, out, err = self.launch("-n", 3, *MPI, "true")
        self.assertEqual((code, out, err), (0, "", ""))

    def test_the_first_failure_gives_the_exit_code_and_is_named_last_with_its_last_lines(self):
        code, out, err = self.launch(
            "-n", 3, *MPI, f"echo hello; [ {RANK} = 1 ] && echo no more memory && exit 3; sleep 1; exit 9")
        self.assertEqual(code, 3, err)
        self.assertEqual(out.count("hello"), 3)
        report = err[err.index("first to fail"):]
        self.assertIn(f"worker 1 on {os.uname().nodename} was the first to fail: it ended with exit code 3", err)
        self.assertIn("[worker 1] no more memory", report)
        self.assertNotIn("worker 2", report)

    def test_a_survivor_that_ends_before_the_rank_it_lost_is_not_the_first_to_fail(self):
        for said in (LOST.format("it ended"), "key 7: rank 1 has left the store"):
            code, _, err = self.launch("-n", 3, *MPI,
                                       f"[ {RANK} = 1 ] && sleep 1 && exit 5; echo \"{said}\" >&2; exit 42")
            self.assertEqual(code, 5, err)
            self.assertIn("worker 1 on", err[err.index("first to fail") - 40:])

    def test_a_worker_that_a_signal_ends_gives_128_and_the_signal(self):
        code, _, err = self.launch("-n", 2, *MPI, f"[ {RANK} = 1 ] && kill -9 $$; exit 0")
        self.assertEqual(code, 137, err)
        self.assertIn("worker 1", err)
        self.assertIn("SIGKILL", err)

    def test_survivors_in_mpi_outlive_a_peer_that_is_killed(self):
        code, out, err = self.launch("-n", 3, *MPI, sys.executable, "-c", IN_MPI)
        self.assertEqual(code, 137, err)
        self.assertEqual(out.count("still here"), 2, out)
        self.assertNotIn("PMIX ERROR", err)

    def test_survivors_that_do_not_end_are_ended_after_the_grace(self):
        code, _, err = self.launch("-n", 3, *MPI, "--grace", "0.5",
                                   f"[ {RANK} = 2 ] && exit 5; {CLING}")
        self.assertEqual(code, 5, err)
        self.assertIn("ending worker", err)
        self.assert_nothing_left(2)

    def test_a_stopped_worker_is_ended_as_soon_as_all_others_have_lost_it_and_ended(self):
        silent = LOST.format("4 heartbeats of it are missing: its process is stopped")
        for status in (0, 42):
            with self.subTest(status=status):
                start = time.monotonic()
                code, _, err = self.launch("-n", 3, *MPI,
                                           f"[ {RANK} = 1 ] && kill -STOP $$; echo \"{silent}\"; exit {status}")
                self.assertNotEqual(code, 0, err)
                self.assertLess(time.monotonic() - start, 15, err)
                self.assertIn("ending worker 1 on", err)

    def test_one_that_others_lost_is_an_error_though_every_worker_ended_with_0(self):
        code, _, err = self.launch("-n", 3, *MPI, f'[ {RANK} = 1 ] || echo "{LOST.format("its process ended")}"')
        self.assertEqual(code, 1, err)
        self.assertRegex(err, "the others lost worker 1 on .*, though it ended with exit code 0")

    def test_what_a_program_repeats_of_an_old_log_fails_nothing(self):
        code, out, err = self.launch("-n", 2, *MPI, "echo log of last week: rank 1 is lost: its process ended")
        self.assertEqual((code, out.count("last week"), err), (0, 2, ""))

    def test_a_command_that_is_not_there_gives_127_and_its_name(self):
        code, _, err = self.launch("-n", 2, *MPI, "no-such-program", "argument")
        self.assertEqual(code, 127, err)
        self.assertRegex(err, r"cannot start no-such-program: No such file or directory; on \S+ PATH there is /")

    def test_of_a_command_that_is_a_path_it_says_the_folder_from_which_it_leads(self):
        code, _, err = self.launch("-n", 2, *MPI, "build/no-such-program")
        self.assertEqual(code, 127, err)
        self.assertRegex(err, rf"cannot start build/no-such-program: No such file or directory; the command starts in "
                              rf"{re.escape(os.getcwd())} on \S+\n")

    def test_what_a_worker_leaves_running_ends_with_it(self):
        code, _, err = self.launch("-n", 2, *MPI, "setsid sleep 600 & exit 0")
        self.assertEqual(code, 0, err)
        for rank in (0, 1):
            self.assertRegex(err, rf"\[worker {rank}\] launch.py: the command has ended, and left sleep "
                                  r"\(process \d+\) running, which ends with it\n")
        self.assert_nothing_left(2)


class Output(LaunchCase):
    def test_lines_carry_their_worker_unless_there_is_one_or_it_is_turned_off(self):
        say = ("sh", "-c", f"echo out {RANK}; echo err {RANK} >&2")
        _, out, err = self.launch("-n", 2, *MPI, *say)
        self.assertEqual(sorted(out.splitlines()), ["[worker 0] out 0", "[worker 1] out 1"])
        self.assertEqual(sorted(err.splitlines()), ["[worker 0] err 0", "[worker 1] err 1"])
        _, out, _ = self.launch("-n", 1, *MPI, *say)
        self.assertEqual(out, "out 0\n")
        _, out, _ = self.launch("-n", 2, "--no-prefix", *MPI, *say)
        self.assertEqual(sorted(out.splitlines()), ["out 0", "out 1"])

    def test_a_line_comes_at_once_though_the_program_does_not_flush(self):
        process = self.start("-n", 2, *MPI, sys.executable, "-c",
                             "import time; print('early'); time.sleep(600)")
        self.wait_for_lines(process, 2, "early")
        process.terminate()
        process.communicate()

    def test_lines_of_several_workers_arrive_whole(self):
        tail = "x" * 200
        code, out, err = self.launch("-n", 3, *MPI, f"seq -f \"{RANK} %g {tail}\" 5000")
        self.assertEqual(code, 0, err)
        for rank in range(3):
            mine = [line for line in out.splitlines() if line.startswith(f"[worker {rank}] ")]
            wanted = [f"[worker {rank}] {rank} {i} {tail}" for i in range(1, 5001)]
            odd = [line for line in wanted if line not in set(mine)][:3] + [line for line in mine
                                                                            if line not in set(wanted)][:3]
            self.assertTrue(mine == wanted, f"{len(mine)} lines of worker {rank}; lacking or odd: {odd}")
        self.assertEqual(out.count("\n"), 15000)

    def test_of_a_progress_line_its_last_state_is_shown(self):
        _, out, _ = self.launch("-n", 2, *MPI, "printf '10 %%\\r90 %%\\r100 %%\\r\\nunfinished'")
        self.assertEqual(sorted(out.splitlines()),
                         [f"[worker {r}] {text}" for r in (0, 1) for text in ("100 %", "unfinished")])

    def test_bytes_that_are_no_utf8_arrive_as_they_left(self):
        _, out, _ = self.launch("-n", 1, *MPI, "printf '\\377\\n'")
        self.assertEqual(out.encode("utf-8", "surrogateescape"), b"\xff\n")

    def test_a_reader_that_leaves_ends_the_job(self):
        process = self.start("-n", 2, *MPI, "yes")
        self.wait_for_lines(process, 1, "y")
        process.stdout.close()
        self.assertNotEqual(process.wait(30), 0)
        process.stderr.close()
        self.assert_nothing_left()

    def redirected(self, how, job):
        return self.launch(*map(str, (*MPI, "-n", 2, job)),
                           command=("sh", "-c", f'exec "$@" {how}', "sh", sys.executable, str(LAUNCH)))

    def test_an_output_that_takes_no_more_ends_the_job_with_a_reason(self):
        code, _, err = self.redirected(">/dev/full", "echo hello; exec sleep 600")
        self.assertEqual((code, err), (1, "launch.py: cannot write to standard output: No space left on device; "
                                          "the job was ended\n"))
        self.assert_nothing_left(2)

    def test_a_stream_that_is_closed_or_full_leaves_the_exit_code_as_it_is(self):
        for how in (">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"):
            for status in (0, 3):
                code, _, err = self.redirected(how, f"echo hello; exit {status}")
                self.assertEqual(code, status, (how, err))
                self.assertNotIn("Traceback", err)


class Command(LaunchCase):
    def test_its_standard_input_is_empty_and_one_that_asks_for_a_line_is_told_so(self):
        code, out, err = self.launch("-n", 1, *MPI, "cat; test -t 1 && echo a terminal")
        self.assertEqual((code, out), (0, "a terminal\n"), err)
        code, _, err = self.launch("-n", 1, *MPI, sys.executable, "-c", "input('ready? ')")
        self.assertEqual(code, 1, err)
        self.assertIn("launch.py: a worker's standard input is empty; let it read a file", err)

    def test_separate_words_stay_as_they_are(self):
        words = ("printf", "<%s>", "two words", ":", "$HOME", "", "--help")
        _, out, _ = self.launch("-n", 1, *MPI, *words)
        self.assertEqual(out, "<two words><:><$HOME><><--help>\n")

    def test_programs_and_libraries_are_looked_for_where_they_are_without_mpirun(self):
        """mpirun puts its own folder first in PATH, and with it another Python than that of an environment."""
        here = {"PATH": f"/own:{os.environ['PATH']}", "LD_LIBRARY_PATH": "/own/lib"}
        code, out, err = self.launch("-n", 1, *MPI, "echo $PATH; echo $LD_LIBRARY_PATH", **here)
        self.assertEqual((code, out.splitlines()), (0, [here["PATH"], here["LD_LIBRARY_PATH"]]), err)

    def test_variables_reach_the_workers_whatever_is_in_them(self):
        awkward = "a b;c=d\n$e'\""
        code, out, err = self.launch(
            "-n", 2, *MPI, "--env", "OTHER=1,2", sys.executable, "-c",
            "import os; print([os.environ.get(n) for n in ('DMLC_X', 'OTHER', 'TUTTI_MODE', "
            "'TUTTI_LAUNCH_CONTACT')])", DMLC_X=awkward)
        self.assertEqual(code, 0, err)
        self.assertEqual(out.count(repr([awkward, "1,2", "mpi", None])), 2, out)


class End(LaunchCase):
    def start_clinging(self, grace=1):
        process = self.start("-n", 2, *MPI, "--grace", grace, CLING)
        self.wait_for_lines(process, 2, "up")
        self.assertGreater(len(self.marked()), 6)
        return process

    def end_by(self, number):
        process = self.start_clinging()
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        return process.returncode, err

    def test_ctrl_c_ends_every_process(self):
        code, err = self.end_by(signal.SIGINT)
        self.assertEqual(code, 130, err)
        self.assert_nothing_left(2)

    def test_sigterm_ends_every_process(self):
        code, err = self.end_by(signal.SIGTERM)
        self.assertEqual(code, 143, err)
        self.assert_nothing_left(2)

    def saved(self, command):
        """The output of two workers that are asked to end when they have started, and that need longer than a signal
        alone allowed. A program that the signal misses, because it has not started yet, would use up the whole grace.
        """
        process = self.start("-n", 2, *MPI, command)
        self.wait_for_lines(process, 2, "up")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 143, err)
        self.assert_nothing_left(2)
        return out.count("saved")

    def test_a_worker_that_is_asked_to_end_has_the_grace_to_save_its_state(self):
        self.assertEqual(self.saved(SAVES), 2)

    def test_so_has_a_program_whose_shell_ends_at_once(self):
        self.assertEqual(self.saved(f"({SAVES}); true"), 2)

    def test_a_signal_that_announces_something_reaches_each_worker_once(self):
        self.assert_announced_once(2, self.start("-n", 2, *MPI, sys.executable, "-c", COUNTS))

    def test_one_that_every_process_but_the_command_gets_ends_nothing(self):
        process = self.start("-n", 1, *MPI, "sh", "-c", "trap '' USR1; echo up; sleep 1; echo done")
        self.wait_for_lines(process, 1, "up")
        for pid in self.marked():
            os.kill(pid, signal.SIGUSR1)
        out, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, out), (0, "done\n"), err)

    def test_a_program_that_a_process_starts_while_it_is_asked_to_end_does_not_use_up_the_grace(self):
        # The process sees the signal, and starts the program before it takes it.
        late = ("import os, signal, time; "
                "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); print('up', flush=True); "
                "[time.sleep(0.01) for _ in iter(lambda: signal.SIGTERM in signal.sigpending(), True)]; "
                "ready, told = os.pipe(); os.fork() or (os.write(told, b'.'), "
                "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM]), time.sleep(600)); "
                "os.read(ready, 1); signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])")
        process = self.start("-n", 1, *MPI, "--grace", 1000, sys.executable, "-c", late)
        self.wait_for_lines(process, 1, "up")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 130, err)
        self.assert_nothing_left()

    def test_a_second_signal_ends_everything_at_once_whatever_the_grace(self):
        process = self.start_clinging(grace=600)
        process.send_signal(signal.SIGTERM)
        self.assertIn("SIGTERM came: 2 workers have 600 s to end; a second signal", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 143, err)
        self.assert_nothing_left(2)

    def test_a_job_under_nohup_outlives_its_terminal(self):
        process = self.start("-n", 2, *MPI, "sh", "-c", "echo up; sleep 1; echo done",
                             command=("nohup", sys.executable, str(LAUNCH)))
        self.wait_for_lines(process, 2, "up")
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, out.count("done")), (0, 2), f"{out}{err}")

    def test_a_launcher_that_is_killed_leaves_nothing_behind(self):
        process = self.start_clinging()
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
        self.assert_nothing_left()

    def test_the_death_of_mpirun_ends_the_job_and_is_an_error(self):
        process = self.start_clinging()
        mpirun = [pid for pid in self.marked()
                  if pathlib.Path("/proc", str(pid), "comm").read_text() == "mpirun\n"]
        os.kill(mpirun[0], signal.SIGKILL)
        _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 137, err)
        self.assertIn("mpirun", err)
        self.assert_nothing_left(2)


if __name__ == "__main__":
    unittest.main()
