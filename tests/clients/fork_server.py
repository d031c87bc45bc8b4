"""Imports the modules of a Python program once, and then starts the program in forks of this process.

    python fork_server.py REQUESTS PROGRAM

REQUESTS is the number of a socket. Each request has the arguments, the variables and the folder of one start, with the
files for its output and its errors and a socket, to which its process sends its id and later its exit status. The end
of the requests ends this process. `programs.py` sends them.
"""

import ast
import atexit
import contextlib
import gc
import importlib
import json
import os
import pathlib
import runpy
import socket
import sys
import threading
import traceback

LATE_IMPORTS = pathlib.Path("late_imports.json").absolute()  # names of modules that a fork imported while it ran


def main(requests, program):
    requests = socket.socket(fileno=int(requests))
    variables = dict(os.environ)
    sys.path[0] = str(pathlib.Path(program).parent)
    execute_imports(program)
    known, first = {*sys.modules}, None
    while True:
        request, descriptors, *_ = socket.recv_fds(requests, 1_000_000, 3)
        if not request:
            break
        if LATE_IMPORTS.exists():
            known |= import_late(json.loads(LATE_IMPORTS.read_text()))
            LATE_IMPORTS.unlink()
        if threading.active_count() > 1:
            sys.exit(f"{program}: its imports start threads, which a fork does not have")
        gc.freeze()
        if (process := os.fork()) == 0:
            requests.close()
            arguments, given, folder = json.loads(request)
            changed = {name: value for name, value in os.environ.items() if variables.get(name) != value}
            start(program, arguments, given | changed, folder, *descriptors, known)
        for it in descriptors:
            os.close(it)
        if not first:
            first = process
            os.waitpid(first, 0)  # the others then have its imports
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def execute_imports(program):
    """Executes the imports of a program, except those of files next to it, which may read the variables of a case."""
    source = pathlib.Path(program)
    for it in ast.parse(source.read_text()).body:
        is_beside = isinstance(it, ast.ImportFrom) and source.with_name(f"{it.module}.py").exists()
        if isinstance(it, (ast.Import, ast.ImportFrom)) and not is_beside:
            exec(compile(ast.Module([it], type_ignores=[]), program, "exec"), {})


def import_late(modules):
    """Imports these modules, so that later forks have them. Returns the names of all that are there or failed."""
    for module in modules:
        with contextlib.suppress(Exception):  # the program then imports it itself
            importlib.import_module(module)
    return {*modules, *sys.modules}


def start(program, arguments, variables, folder, output, errors, replies, known):
    """Executes the program and ends this process, as an interpreter does, but without removing its objects."""
    status = 1
    try:
        os.setsid()
        os.write(replies, b"%d" % os.getpid())
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")
        status = 0
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # any exception ends the program
        traceback.print_exc()
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        note_late_imports(program, known)
        os.write(replies, b"%d" % status)
        os._exit(status)


def note_late_imports(program, known):
    beside = {it.stem for it in pathlib.Path(program).parent.glob("*.py")}
    if late := [it for it in sys.modules if it not in known | beside]:
        noted = LATE_IMPORTS.with_suffix(f".{os.getpid()}")
        noted.write_text(json.dumps(late))
        noted.rename(LATE_IMPORTS)


if __name__ == "__main__":
    main(*sys.argv[1:])
