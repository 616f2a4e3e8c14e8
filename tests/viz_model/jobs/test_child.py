"""Child processes: what they say, and that none is left when its job or its program ends, however that ended."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE, until
from viz_model.errors import JobStopped
from viz_model.jobs import Job, untold
from viz_model.jobs import child as children
from viz_model.jobs.child import ENDS_WITH_PARENT, Child, ChildFailed, run

ROOT = Path(children.ROOT)


@pytest.fixture
def script(tmp_path):
    """`script(code)`: the path of a file with this code."""

    def write(code):
        path = tmp_path / "script.py"
        path.write_text(code)
        return str(path)

    return write


def is_alive(pid):
    """Whether the process is there and no corpse that waits to be noticed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_it_gives_what_it_wrote_its_arguments_and_nothing_to_read(script):
    code = "import sys; print(sys.argv[1:], repr(sys.stdin.read()), __name__)"
    assert run([script(code), "one", "two words"], untold, "writing").strip() == "['one', 'two words'] '' __main__"


def test_a_module_is_run_as_python_does_in_its_folder(tmp_path):
    (tmp_path / "module_of_a_test.py").write_text("import os, sys; print(os.getcwd(), sys.argv[1:])")
    assert run(["module_of_a_test", "x"], untold, "", folder=tmp_path).strip() == f"{tmp_path} ['x']"


def test_what_failed_is_said(script):
    with pytest.raises(ChildFailed, match="a sentence"):
        run([script("import sys; sys.exit('a sentence')")], untold, "failing")
    with pytest.raises(ChildFailed, match="ended with the status 3"):
        run([script("import os; os._exit(3)")], untold, "failing")


def test_its_bytes_are_told_and_a_stop_ends_it(script, tmp_path):
    folder = tmp_path / "grows"
    folder.mkdir()
    path = script("import os, time; open('grows/file', 'wb').write(b'x' * 1000); time.sleep(600)")
    job = Job(lambda job: run([path], job.tell, "writing", folder=tmp_path, grows=folder, total=900)).start()
    until(lambda: job.progress.done)
    assert (job.progress.done, job.progress.total, job.progress.words) == (900, 900, "writing")
    job.stop(PATIENCE)
    with pytest.raises(JobStopped):
        job.result()


def test_a_stopped_job_leaves_no_process(script):
    child = None

    def work(job):
        nonlocal child
        child = Child([script("import time; time.sleep(600)")])
        job.at_stop(child.kill)
        child.wait()
        child.end()

    job = Job(work).start()
    until(lambda: child is not None)
    job.stop(PATIENCE)
    assert not job.is_under_way
    assert not is_alive(child.process.pid)


WITHOUT_TORCH = """
import sys, types
sys.modules["viz_model"] = package = types.ModuleType("viz_model")  # what viz_model/__init__ imports is not needed
package.__path__ = ["viz_model"]
"""
PARENT = f"""{WITHOUT_TORCH}
from viz_model.jobs.child import Child
child = Child([sys.argv[1]])
print(child.process.stdout.readline().decode(), flush=True)
child.wait()
"""


def test_a_child_ends_with_a_parent_that_was_killed(script):
    """As `kill -9` of a server in the middle of a fetch: what converts the model must not go on for nobody."""
    path = script("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    parent = subprocess.Popen([sys.executable, "-c", PARENT, path], cwd=ROOT, stdout=subprocess.PIPE)
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait(PATIENCE)
    parent.stdout.close()
    until(lambda: not is_alive(pid))


ENDING = f"""{WITHOUT_TORCH}
import os, time
from viz_model.jobs import Job
from viz_model.jobs.child import run
job = Job(lambda job: run([sys.argv[1]], job.tell, "")).start()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
"""


def test_a_program_that_ends_ends_its_jobs_and_does_not_wait_for_their_work(script, tmp_path):
    told = tmp_path / "pid"
    path = script(f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    subprocess.run([sys.executable, "-c", ENDING, path, told], cwd=ROOT, timeout=PATIENCE, check=True)
    assert not is_alive(int(told.read_text()))


def test_the_script_that_ends_with_its_parent_imports_nothing_of_ours():
    """pip and the Hub's library begin without torch."""
    code = "import runpy, sys; runpy.run_path(sys.argv[1]); print(*{'viz_model', 'torch'} & sys.modules.keys())"
    result = subprocess.run([sys.executable, "-c", code, ENDS_WITH_PARENT], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""
