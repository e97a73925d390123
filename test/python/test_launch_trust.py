#!/usr/bin/env python3
"""Tests which programs the launcher runs, and into which folders it copies. It uses none that another user may have
replaced. The other user is one of root's making, so some of these tests need root.
"""
import contextlib
import io
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from launcher import batch, destination, helper, hosts, members, options, programs, servers, shim, starter, trust

LAUNCH = pathlib.Path(__file__).resolve().parents[2] / "scripts/launch.py"
OTHER = 65534


class FolderCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()

    def program(self, path, mode=0o755):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
        return path

    def made(self, path, mode=0o755):
        path = self.folder / path
        path.mkdir(parents=True)
        path.chmod(mode)
        return path

    def enter(self, folder):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder)

    def of_other(self, path):
        if os.geteuid() != 0:
            self.skipTest("only root can give a file to another user")
        os.lchown(path, OTHER, OTHER)
        return path


class Programs(FolderCase):
    """Programs are found by PATH, and never in the current folder."""

    def test_a_bare_word_is_no_file_of_the_current_folder_however_path_leads_there(self):
        self.program("here/tool")
        self.enter(self.folder / "here")
        for path in ("", ".", ":/bin", "/bin:", "/bin::/usr/bin", ".:/bin", "../here"):
            with mock.patch.dict(os.environ, PATH=path):
                self.assertIsNone(trust.find("tool"), path)
                self.assertIsNone(programs.found_as_by_a_shell("tool"), path)
        with mock.patch.dict(os.environ, PATH=f":{self.folder}/here"):
            self.assertEqual(trust.find("tool"), f"{self.folder}/here/tool")
        self.assertEqual(programs.found_as_by_a_shell("./tool"), f"{self.folder}/here/tool")

    def test_every_program_of_the_launchers_own_is_run_by_its_full_path(self):
        bin_folder = self.program("bin/ssh").parent
        for name in ("rsync", "mpirun", "srun", "qsub", "qconf", "python3", "yarn"):
            shutil.copy(bin_folder / "ssh", bin_folder / name)
        self.made("here")
        self.enter(self.folder / "here")
        for name in os.listdir(bin_folder):
            shutil.copy(bin_folder / name, name)
        request = options.parse(["-n", "1", "--launcher", "slurm", "true"])
        with mock.patch.dict(os.environ, PATH=f":{bin_folder}"):
            lines = [hosts.words_to("h", ["true"]), hosts.rsync_words("/a", "h", "/b"),
                     batch.slurm(request, {}, [], "/bin/server").words]
            self.assertEqual([line[0] for line in lines], [f"{bin_folder}/{name}" for name in ("ssh", "rsync", "srun")])
            self.assertIn(f"{bin_folder}/ssh -o", lines[1][lines[1].index("-e") + 1])
            self.assertIn(f"{bin_folder}/python3", lines[2])

    def test_variables_lose_the_entries_that_stand_for_the_current_folder(self):
        for value, left in ((":/a", "/a"), ("/a:", "/a"), ("/a::/b", "/a:/b"), ("", None), (":", None),
                            ("/a:b", "/a:b")):
            env = {"LD_LIBRARY_PATH": value, "PYTHONPATH": value, "PATH": ":/bin"}
            programs.leave_out_empty_entries(env)
            self.assertEqual((env.get("LD_LIBRARY_PATH"), env.get("PYTHONPATH"), env["PATH"]), (left, left, ":/bin"))


class Servers(FolderCase):
    """The search for tutti-server, which gets the job's key."""

    def setUp(self):
        super().setUp()
        launcher = self.made("launcher/scripts/launcher")
        self.enterContext(mock.patch.object(servers, "HERE", launcher / "servers.py"))
        (launcher / "servers.py").touch()
        self.enterContext(mock.patch.object(sys, "argv", [str(self.folder / "launcher/scripts/launch.py")]))
        self.enterContext(mock.patch.dict(os.environ, PATH="/nowhere"))
        self.said = self.enterContext(contextlib.redirect_stderr(io.StringIO()))

    def found(self, *command, path=None):
        request = options.parse(["-n", "1", "--launcher", "local", *map(str, command)])
        with mock.patch.dict(os.environ, {} if path is None else {"PATH": path}):
            try:
                return servers.find_server(request)
            except options.UsageError:
                return None

    def test_the_current_folder_and_the_one_above_are_not_searched_for_a_command_of_path(self):
        for place in ("job/tutti-server", "tutti-server"):
            self.program(place)
        self.made("bin")
        self.program("bin/train")
        self.enter(self.folder / "job")
        for path in (f"{self.folder}/bin", f"{self.folder}/bin:", f":{self.folder}/bin", "."):
            with self.subTest(path):
                (self.folder / "tutti-server").rename(self.folder / "elsewhere")
                self.assertIsNone(self.found("python3", "train.py", path="/nowhere"))
                self.assertIsNone(self.found("train", path=path))
                (self.folder / "elsewhere").rename(self.folder / "tutti-server")

    def test_it_is_found_near_a_command_that_is_a_path_or_lies_in_path(self):
        server = str(self.program("build/tutti-server"))
        train = self.program("build/examples/train")
        self.enter(self.folder)
        self.assertEqual(self.found(train), server)
        self.assertEqual(self.found("build/examples/train"), server)
        self.assertEqual(self.found("train", path=str(train.parent)), server)
        self.assertEqual(self.found("python3", "train.py", path=str(self.folder / "build")), server)

    def test_one_that_another_user_owns_is_not_used_and_the_search_goes_on(self):
        planted = self.of_other(self.program("shared/tutti-server"))
        right = str(self.program("bin/tutti-server"))
        mine = self.program("shared/mine/train")
        self.assertEqual(self.found(mine, path=f"{self.folder}/bin"), right)
        self.assertIn(f"{planted} is not used: it belongs to user nobody ({OTHER})", self.said.getvalue())
        self.assertIsNone(self.found(mine))

    def test_one_of_the_commands_owner_is_used(self):
        self.of_other(self.program("shared/tutti-server"))
        self.of_other(self.program("shared/train"))
        self.assertEqual(self.found(self.folder / "shared/train"), f"{self.folder}/shared/tutti-server")

    def test_one_that_others_may_write_is_not_used(self):
        self.program("a/train")
        for mode in (0o777, 0o757, 0o775):
            server = self.program("a/tutti-server", mode)
            os.chown(server, -1, OTHER if os.geteuid() == 0 else -1)
            if mode != 0o775 or os.geteuid() == 0:
                self.assertIsNone(self.found(self.folder / "a/train"), oct(mode))
                self.assertIn(f"tutti-server is not used: other users may write to it (mode {mode:04o})",
                              self.said.getvalue())
        self.program("a/tutti-server")
        self.assertIsNotNone(self.found(self.folder / "a/train"))

    def test_of_a_link_both_it_and_what_it_leads_to_count(self):
        self.program("a/train")
        real = self.program("b/tutti-server")
        (self.folder / "a/tutti-server").symlink_to(real)
        self.assertIsNotNone(self.found(self.folder / "a/train"))
        self.of_other(self.folder / "a/tutti-server")
        self.assertIsNone(self.found(self.folder / "a/train"))
        os.lchown(self.folder / "a/tutti-server", os.geteuid(), -1)
        self.of_other(real)
        self.assertIsNone(self.found(self.folder / "a/train"))

    def test_on_its_host_too_it_is_started_only_if_it_is_trusted(self):
        server = self.program("a/tutti-server")
        one = shim.Shim.__new__(shim.Shim)
        one.command, one.owners, one.ignored, one.listener = [str(server)], [], (), None
        null = self.enterContext(open(os.devnull, "w"))
        with one.started(null, null) as process:
            self.assertEqual(process.wait(), 0)
        self.of_other(server)
        with self.assertRaisesRegex(PermissionError, "belongs to user nobody"):
            one.started(null, null)
        one.owners = [OTHER]
        with one.started(null, null) as process:
            self.assertEqual(process.wait(), 0)


class Destination(FolderCase):
    """The folder of --sync-dst-dir, on its host."""

    def problem(self, path, home="/nonexistent"):
        """The text of the program that runs there."""
        path = self.folder / path
        told = helper.lines(helper.source("trust", "destination"), {"folder": str(path)})
        done = subprocess.run([*helper.python(True), helper.BOOT], input=told, capture_output=True, text=True,
                              check=False, env={**os.environ, "HOME": str(home)})
        self.assertEqual((done.stderr, done.returncode), ("", int(bool(done.stdout))))
        return done.stdout.lstrip("\n").removeprefix(destination.REFUSED).rstrip().replace(f"{self.folder}/", "")

    def test_a_folder_that_is_made_is_the_users_alone_and_so_are_those_above_that_it_needs(self):
        self.assertEqual(self.problem("a/b/job"), "")
        for path in ("a", "a/b", "a/b/job"):
            self.assertEqual(stat.S_IMODE((self.folder / path).stat().st_mode), 0o700)
        self.assertEqual(self.problem("a/b/job"), "", "and it may be used again")

    def test_a_folder_of_the_users_stays_as_it_is(self):
        self.made("job/inside", 0o755)
        (self.folder / "job").chmod(0o755)
        self.assertEqual(self.problem("job"), "")
        self.assertEqual(stat.S_IMODE((self.folder / "job").stat().st_mode), 0o755)

    def test_it_may_lie_in_a_folder_that_all_may_write_to_and_nobody_may_take_from(self):
        self.made("tmp").chmod(0o1777)
        self.assertEqual(self.problem("tmp/job"), "")
        self.assertEqual(self.problem("tmp/job"), "")

    def test_a_folder_that_others_may_write_to_is_refused_at_every_step_of_the_way(self):
        for mode in (0o777, 0o772):
            self.made(f"{mode}/job").chmod(mode)
            self.assertEqual(self.problem(f"{mode}/job"), f"other users may write to {mode}/job (mode {mode:04o})")
            (self.folder / f"{mode}/job").chmod(0o700)
            (self.folder / str(mode)).chmod(mode)
            for path in ("job", "new"):
                self.assertEqual(self.problem(f"{mode}/{path}"), f"other users may write to {mode} (mode {mode:04o})")
            self.assertFalse((self.folder / f"{mode}/new").exists())
        self.made("sticky").chmod(0o1777)
        self.assertEqual(self.problem("sticky"), "other users may write to sticky (mode 1777)")

    def test_a_folder_or_link_of_another_user_is_refused_and_nothing_is_written_behind_it(self):
        self.made("tmp").chmod(0o1777)
        self.made("home")
        self.of_other(self.made("tmp/theirs"))
        for target, name in (("home", "link"), ("home/new", "dangling")):
            (self.folder / "tmp" / name).symlink_to(self.folder / target)
            self.of_other(self.folder / "tmp" / name)
        for path in ("tmp/theirs", "tmp/theirs/job", "tmp/link", "tmp/link/job", "tmp/dangling"):
            with self.subTest(path):
                self.assertRegex(self.problem(path), rf"tmp/\w+ belongs to user nobody \({OTHER}\)|no folder")
        self.assertEqual(os.listdir(self.folder / "home"), [])
        self.assertEqual(os.listdir(self.folder / "tmp/theirs"), [])

    def test_a_link_of_the_users_own_is_followed(self):
        self.made("scratch")
        (self.folder / "job").symlink_to(self.folder / "scratch")
        self.assertEqual(self.problem("job"), "")

    def test_a_folder_of_the_home_is_the_users_whoever_made_the_way_to_it(self):
        home = self.made("team/me")
        self.of_other(self.folder / "team")
        self.assertRegex(self.problem("team/me/job"), "team belongs to user nobody")
        self.assertEqual(self.problem("team/me/job", home), "")
        (self.folder / "link").symlink_to(self.folder / "team")
        self.assertEqual(self.problem("link/me/job", self.folder / "link/me"), "")
        self.of_other(self.made("team/me/job/theirs"))
        self.assertRegex(self.problem("team/me/job", home), "theirs belongs to user nobody")

    def test_what_another_user_has_put_into_the_users_folder_is_found(self):
        self.made("job/deep")
        self.of_other(self.program("job/deep/sitecustomize.py"))
        self.assertRegex(self.problem("job"), r"job/deep/sitecustomize.py belongs to user nobody")

    def test_a_folder_inside_that_others_may_write_to_counts_where_they_get_in(self):
        self.made("job/deep", 0o777)
        self.assertRegex(self.problem("job"), r"other users may write to job/deep \(mode 0777\)")
        (self.folder / "job").chmod(0o700)
        self.assertEqual(self.problem("job"), "")

    def test_what_is_no_folder_is_refused(self):
        self.program("job")
        self.assertEqual(self.problem("job"), "job is no folder")
        self.assertIn("job", self.problem("job/below"))

    def test_a_copy_is_nobody_elses_to_write_and_leaves_the_folder_as_it_is(self):
        if not shutil.which("rsync"):
            self.skipTest("rsync is not there")
        source, target = self.made("source/inside", 0o777).parent, self.made("job", 0o700)
        source.chmod(0o777)
        self.program("source/train", 0o777)
        self.program("source/inside/data", 0o666)
        if os.geteuid() == 0:
            os.chown(source / "train", OTHER, OTHER)
        subprocess.run(["rsync", *hosts.RSYNC_OPTIONS, f"{source}/", str(target)], check=True)
        modes = {path: stat.S_IMODE((target / path).stat().st_mode) for path in (".", "inside", "train", "inside/data")}
        self.assertEqual(modes, {".": 0o700, "inside": 0o755, "train": 0o755, "inside/data": 0o644})
        self.assertEqual((target / "train").stat().st_uid, os.geteuid())


class Told(FolderCase):
    """The folder in which the command starts on another host, if the launcher did not make it there."""

    def test_a_folder_that_has_another_owner_there_is_refused(self):
        folder = self.made("job")
        self.enter(folder)
        self.assertEqual(starter.place(mock.Mock(sync_dst_dir=None)), {"folder": str(folder), "folder_owner": 0})
        trust.enter_folder(str(folder), 0)
        trust.enter_folder(str(folder / "absent"), 0)
        self.of_other(folder)
        self.assertEqual(starter.place(mock.Mock(sync_dst_dir=None))["folder_owner"], OTHER)
        trust.enter_folder(str(folder), OTHER)
        with self.assertRaisesRegex(PermissionError, r"job belongs to user nobody \(65534\) here"):
            trust.enter_folder(str(folder), 0)

    def test_what_goes_to_other_hosts_finds_all_that_it_imports(self):
        for last, told in (("shim", None), ("become", {"env": {"A": "b"}, "folder": "/", "folder_owner": 0,
                                                       "words": ["sh", "-c", "echo $A $PWD"]})):
            text = helper.source() if told is None else helper.source("trust", last)
            self.assertNotIn(str(pathlib.Path(helper.__file__).parent), text)
            if told is not None:
                done = subprocess.run([*helper.python(True), helper.BOOT], input=helper.lines(text, told),
                                      capture_output=True, text=True, check=True)
                self.assertEqual(done.stdout, "b /\n")


class Secrets(unittest.TestCase):
    """Nobody can join the job by the data that batch systems store and show."""

    def test_what_carries_the_secrets_to_the_processes_has_them_in_no_variable_and_on_no_command_line(self):
        key, contact = "5e" * 32, "c0" * 16 + "@h:1"
        found = mock.patch.object(trust.shutil, "which", side_effect=lambda name, path=None: f"/bin/{name}")
        jar = mock.patch.object(batch, "distributed_shell", return_value="/a.jar")
        with found, jar, mock.patch.dict(os.environ, HOME="/home/me", TUTTI_JOB_KEY="0a" * 32,
                                               TUTTI_JOB_KEY_FILE="/0a0a"), \
                mock.patch.object(starter.secrets, "token_hex", return_value=key):
            for system in (*batch.SYSTEMS, "ssh", "local"):
                with self.subTest(system):
                    hostfile = ["-H", "hosts"] if system == "ssh" else []
                    request = options.parse(["-n", "1", "-s", "1", "--launcher", system, *hostfile, "true"])
                    env, forwarded = starter.environment(request, contact)
                    if system in batch.SYSTEMS:
                        made = batch.SYSTEMS[system](request, env, forwarded, "/bin/server")
                    else:
                        where = [None if system == "local" else "h"] * 3
                        made = members.starter(request, where, env, forwarded, "/bin/server")
                    seen = json.dumps([made.words, made.env])
                    for secret in (key, contact, "0a0a"):
                        self.assertNotIn(secret, seen)
                    self.assertEqual(made.env["HOME"], "/home/me")
                    self.assertTrue(key in made.told and contact in made.told)


# Leaves a mark at the place where it was run.
PLANTED = "#!/bin/sh\ntouch {mark}\n"
# Connects to this machine, as if it were another one.
SSH = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nshift\nexec sh -c \"$*\"\n"


class Whole(FolderCase):
    """The launcher itself in a place that another user has prepared."""

    def setUp(self):
        super().setUp()
        self.mark = self.folder / "mark"
        self.program("bin/ssh").write_text(SSH)
        self.server = self.program("bin/tutti-server")
        self.program("hosts").write_text("localhost\n")

    def launch(self, *words, folder, path):
        done = subprocess.run([sys.executable, str(LAUNCH), "-n", "1", "-s", "1", *map(str, words)], cwd=folder,
                              env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL)
        return done.returncode, done.stderr

    def plant(self, path):
        path = self.program(path)
        path.write_text(PLANTED.format(mark=self.mark))
        return path

    def test_a_server_in_the_folder_where_a_job_is_started_does_not_run(self):
        for place in ("shared/job/tutti-server", "shared/tutti-server"):
            planted = self.plant(place)
            code, err = self.launch("--launcher", "local", "python3", "-c", "pass", folder=self.made_once("shared/job"),
                                    path="/usr/bin:/bin")
            self.assertFalse(self.mark.exists(), f"{place} was run: {err}")
            self.assertIn((code, "tutti-server, which is neither" in err), ((2, True), (0, False)))
            planted.unlink()

    def made_once(self, path):
        (self.folder / path).mkdir(parents=True, exist_ok=True)
        return self.folder / path

    def sync(self, target):
        self.made_once("job").joinpath("train.py").write_text("print('trained')\n")
        return self.launch("-H", self.folder / "hosts", "--sync-dst-dir", target, f"{sys.executable} train.py",
                           folder=self.folder / "job", path=f"{self.folder}/bin:{os.environ['PATH']}")

    def test_a_folder_that_is_copied_to_is_made_and_used_again_and_its_modules_run(self):
        for _ in range(2):
            code, err = self.sync(self.folder / "copy")
            self.assertEqual(code, 0, err)
        self.assertEqual(stat.S_IMODE((self.folder / "copy").stat().st_mode), 0o700)

    def test_modules_that_another_user_has_put_into_that_folder_do_not_run(self):
        self.made("tmp").chmod(0o1777)
        copy = self.made("tmp/copy")
        (copy / "sitecustomize.py").write_text(f"open({str(self.mark)!r}, 'w')\n")
        self.of_other(copy / "sitecustomize.py")
        for owner, mode, said in ((OTHER, 0o755, "copy belongs to user nobody"),
                                  (0, 0o777, "other users may write to"),
                                  (0, 0o755, "sitecustomize.py belongs to user nobody")):
            os.chown(copy, owner, -1)
            copy.chmod(mode)
            code, err = self.sync(copy)
            self.assertFalse(self.mark.exists(), err)
            self.assertEqual(code, 2, err)
            self.assertRegex(err, rf"--sync-dst-dir .*/tmp/copy: on localhost .*{said}.*such as one in your home")

    def test_nothing_is_copied_through_a_link_of_another_user(self):
        self.made("tmp").chmod(0o1777)
        (self.folder / "tmp/copy").symlink_to(self.made("home"))
        self.of_other(self.folder / "tmp/copy")
        code, err = self.sync(self.folder / "tmp/copy")
        self.assertEqual((code, os.listdir(self.folder / "home")), (2, []), err)
        self.assertIn("tmp/copy belongs to user nobody", err)


if __name__ == "__main__":
    unittest.main()
