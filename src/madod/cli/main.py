"""`madod VERB ...`: finds the verb, runs it, and turns what went wrong into one sentence."""

import atexit
import errno
import gc
import importlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Sequence

from madod import __version__
from madod.cli.escaped import escaped
from madod.cli.streams import open_streams, silence
from madod.errors import InputError, is_out_of_memory, nearest, outside

VERBS = {
    "demo": "the whole story on embedded data, in about two minutes, ending in a page to look at",
    "data": "fetch or check a known dataset, compare its counts, and decode it once",
    "train": "train on your own folder of pictures, or on a known dataset",
    "predict": "label pictures with a trained model and flag what it does not know",
    "evaluate": "measure a trained model on pictures whose classes you know",
    "serve": "put a trained model behind HTTP: a page to drop pictures on, and an interface for programs",
    "export": "write a trained model as one ONNX file that runs without madod",
    "bench": "carry a plan of many runs through, look at it, and make its tables",
    "report": "make tables, figures and one page of a folder of runs",
    "rescore": "add a detector to a finished run, from its stored outputs",
    "list": "list algorithms, detectors or datasets",
    "cache": "show what the cache of pictures, generators and weights holds, or empty it",
}

PATIENCE = ("GOMP_SPINCOUNT", "8000")
"""How often a CPU's threads look whether the others are done before they go to sleep. With the usual 300,000 they take
the processor from the one that they wait for wherever anything else is busy: on two cores, beside one such process, the
demo took 283 s so and was not through after 300 s without; alone it takes 100 s so and 91 s without."""

LARGE = "Image size"
"""How Pillow begins to warn of a picture, a little below the size from which it is refused."""

RESUMING = ("train", "demo", "bench")
"""Verbs that go on where they were when the same command is given again."""
RESUMED = "; a training goes on from its last checkpoint with the same command"
STOPPED = {"train": RESUMED, "demo": RESUMED, "predict": "; what is printed so far stands"}
"""What is left of a verb that was interrupted, where something is; a sweep says it itself."""

REMEDIES = {
    errno.EROFS: "choose a place on a disk that can be written",
    errno.EACCES: "make it readable and writable, or choose another place",
    errno.EPERM: "make it readable and writable, or choose another place",
    errno.EFBIG: "allow larger files (ulimit -f), or choose a disk that takes them",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENAMETOOLONG: "choose a shorter name",
}
"""What to do where the system refuses something, by its number for it."""

HELP = """madod: image classifiers that keep working in domains they have never seen,
and say so when they are shown a class they have never seen.

usage: madod VERB [OPTIONS]

{verbs}

madod VERB --help says what a verb takes. Start with: madod demo"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 partly done, 2 refused, 130 interrupted."""
    atexit.register(leave)
    open_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name may hold bytes that are no text
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault(*PATIENCE)  # before torch is imported, and for every process that is started here
    ignore(LARGE)
    logging.basicConfig(level=logging.WARNING, format="warning: %(message)s")
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = answer(words)
        sys.stdout.flush()  # a reader who left is noticed here, not when the program ends
        return code
    except InputError as error:
        return refuse(str(error))
    except BrokenPipeError:
        silence(sys.stdout)  # the reader left; nothing is lost
        return 0
    except KeyboardInterrupt:
        sys.stderr.write(f"\nmadod: stopped{STOPPED.get(next(iter(words), ''), '')}\n")
        return 130
    except OSError as error:
        return refuse(system_sentence(error, next(iter(words), "")))
    except Exception as error:
        if is_out_of_memory(error):
            return refuse(memory_sentence(next(iter(words), "")))
        if where := outside(error):
            return refuse(where)
        raise


def ignore(warning: str) -> None:
    """Show nobody warnings that begin so, neither from this process nor from those that it starts."""
    warnings.filterwarnings("ignore", warning)
    others = os.environ.get("PYTHONWARNINGS", "").split(",")
    os.environ["PYTHONWARNINGS"] = ",".join(dict.fromkeys(filter(None, [*others, f"ignore:{warning}"])))


def leave() -> None:
    """Leave everything to the system, which takes it back: a last look for rubbish takes a third of a second.

    Triton (3.9) tells people that everything that is not looked at has leaked, so where it is loaded one looks.
    """
    if "triton" not in sys.modules:
        gc.freeze()


def answer(words: list[str]) -> int:
    """Find the verb and run it."""
    if not words or words[0] in ("-h", "--help", "help"):
        width = max(map(len, VERBS))
        sys.stdout.write(HELP.format(verbs="\n".join(f"  {v:{width}}  {what}" for v, what in VERBS.items())) + "\n")
        return 0
    if words[0] in ("-V", "--version"):
        sys.stdout.write(f"madod {__version__}\n")
        return 0
    if words[0] not in VERBS:
        raise InputError(
            f"there is no verb {words[0]!r}{nearest(words[0], tuple(VERBS))}; there are: {', '.join(VERBS)}"
        )
    return int(importlib.import_module(f"madod.cli.{words[0]}").main(words[1:]))


def refuse(sentence: str) -> int:
    """Say what was wrong and return the exit code for it; a sentence may have a list of files below it."""
    lines = "\n".join(map(escaped, sentence.split("\n")))
    sys.stderr.write(f"madod: {lines}\n")
    return 2


def system_sentence(error: OSError, verb: str) -> str:
    """Say in a sentence what the system refused to a verb, and where."""
    where = f" at {error.filename}" if error.filename else ""
    if error.errno == errno.ENOMEM:
        return memory_sentence(verb)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        resumed = "; it goes on where it was" if verb in RESUMING else ""
        return f"the disk is full{where}: free some space and run the same command again{resumed}"
    why = (error.strerror or str(error)).lower()
    return f"the system refused{where}: {why}" + (f"; {REMEDIES[error.errno]}" if error.errno in REMEDIES else "")


def memory_sentence(verb: str) -> str:
    """Say that memory ran out, and what takes less."""
    fewer = "use smaller images (--size), or fewer in a step (madod's --tasks and --shots, --batch of the others)"
    return f"there is not enough memory for this: {fewer if verb == 'train' else 'free some of it'}"
