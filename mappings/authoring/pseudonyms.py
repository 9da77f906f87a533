"""
Replacements of numbers and words by a key: equal values have equal replacements.

Different numbers of the same length have different ones, because numbers are permuted.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b

from mappings.authoring.alphabets import Codec, alphabet, kind_of, runs

_UID_ROOT = 3  # arcs that stay
_MIN_DIGITS = 3  # of an identifier whose prefix stays
_VOWELS = "aeiou"
_CONSONANTS = "bcdfghjklmnprstvwz"
_ROUNDS = 10
_LONGEST_RUN = 64  # characters that are permuted together
_MIN_WEEKS, _MAX_WEEKS = 4, 52


class Pseudonyms:
    """Replaces numbers and words by a key."""

    def __init__(self, key: bytes) -> None:
        self._key = blake2b(key, digest_size=32, person=b"deidentify").digest()

    def _digest(self, *parts: bytes) -> bytes:
        keyed = blake2b(key=self._key, digest_size=32)
        for part in parts:
            keyed.update(len(part).to_bytes(4))
            keyed.update(part)
        return keyed.digest()

    def _integer(self, *parts: bytes) -> int:
        return int.from_bytes(self._digest(*parts))

    def weeks(self, patient: str) -> int:
        """Return by how many weeks the dates of a patient are shifted: 4 to 52, either way."""
        number = self._integer(b"weeks", patient.strip().casefold().encode(errors="replace"))
        weeks = _MIN_WEEKS + number % (_MAX_WEEKS - _MIN_WEEKS + 1)
        return weeks if number >> 16 & 1 else -weeks

    def digits(self, run: str) -> str:
        """
        Permute a run of digits. Leading zeros stay, so does the length.

        A permutation of all numbers of a length never makes two numbers one.
        """
        ascii_digits = "".join(str(int(digit)) for digit in run)
        zeros = len(ascii_digits) - len(ascii_digits.lstrip("0"))
        rest = ascii_digits[zeros:]
        done = ascii_digits[:zeros]
        for start in range(0, len(rest), _LONGEST_RUN):
            done += self._permuted_number(rest[start : start + _LONGEST_RUN], first=not start)
        return "".join(
            chr(ord(old) - int(old) + int(new)) for old, new in zip(run, done, strict=True)
        )

    def _permuted_number(self, text: str, *, first: bool) -> str:
        """`first`: the number begins here, so its first digit is not 0, before and after."""
        done = self._permuted(text)
        while first and done[0] == "0":  # the permutation returns to such a number
            done = self._permuted(done)
        return done

    def _permuted(self, text: str) -> str:
        values = self._feistel([int(digit) for digit in text], 10, b"digits")
        return "".join(map(str, values))

    def letters(self, run: str) -> str:
        """Permute a run of the letters A to Z; case stays."""
        done = ""
        for start in range(0, len(run), _LONGEST_RUN):
            part = run[start : start + _LONGEST_RUN].lower()
            values = self._feistel([ord(letter) - ord("a") for letter in part], 26, b"letters")
            done += "".join(chr(ord("a") + value) for value in values)
        return _with_case(run, done)

    def _feistel(self, values: list[int], radix: int, tweak: bytes) -> list[int]:
        """Permute all sequences of this length by a Feistel network of two uneven halves."""
        count = len(values)
        tweak += count.to_bytes(2)
        if count == 1:
            order = sorted(range(radix), key=lambda value: self._digest(tweak, value.to_bytes(2)))
            return [order[values[0]]]
        sizes = count // 2, count - count // 2
        left, right = _number_of(values[: sizes[0]], radix), _number_of(values[sizes[0] :], radix)
        for turn in range(_ROUNDS):
            size = radix ** sizes[turn % 2]
            mixed = self._integer(tweak, bytes([turn]), right.to_bytes(40)) + left
            left, right = right, mixed % size
        return [*_values_of(left, radix, sizes[0]), *_values_of(right, radix, sizes[1])]

    def uid(self, text: str) -> str:
        """Permute the arcs of a UID after its root; its syntax stays valid."""
        arcs = text.split(".")
        return ".".join([*arcs[:_UID_ROOT], *map(self._arc, arcs[_UID_ROOT:])])

    def _arc(self, text: str) -> str:
        return "".join(self.digits(run) if run.isdecimal() else run for run in runs(text))

    def identifier(self, text: str, is_prefix: Callable[[str], bool], codec: Codec) -> str:
        """Replace a number with its letters. A prefix stays beside three digits or more."""
        has_number = sum(character.isdecimal() for character in text) >= _MIN_DIGITS
        done = []
        for run in runs(text):
            if run[0].isdecimal():
                done.append(self.digits(run))
            elif kind_of(run[0]) != "letter" or (has_number and is_prefix(run)):
                done.append(run)
            elif run.isascii():
                done.append(self.letters(run))
            else:
                done.append(self._word(run, codec))
        return "".join(done)

    def words(self, text: str, codec: Codec) -> str:
        """Replace the words and numbers of a name or an address."""
        done = []
        for run in runs(text):
            kind = kind_of(run[0])
            if kind == "letter":
                done.append(self._word(run, codec))
            else:
                done.append(self.digits(run) if kind == "digit" else run)
        return "".join(done)

    def _word(self, word: str, codec: Codec) -> str:
        """Return a word that can be pronounced, of the same letters' scripts, lengths and cases."""
        plain = word.casefold().encode(errors="surrogatepass")
        random = self._integer(b"word", plain) | 1 << 256
        done = []
        vowel = bool(random & 1)
        for index, letter in enumerate(word):
            if index and not index % 32:
                random = self._integer(b"word", plain, index.to_bytes(4)) | 1 << 256
            random >>= 7
            if letter.isascii():
                pool = _VOWELS if vowel else _CONSONANTS
                done.append(pool[random % 127 % len(pool)])
            else:
                pool = alphabet(letter, codec.name)
                done.append(pool[random % 127 * len(pool) // 127])
            vowel = not vowel
        return _with_case(word, "".join(done))


def _with_case(model: str, text: str) -> str:
    return "".join(
        new.upper() if old.isascii() and old.isupper() else new
        for old, new in zip(model, text, strict=True)
    )


def _number_of(values: Sequence[int], radix: int) -> int:
    number = 0
    for value in values:
        number = number * radix + value
    return number


def _values_of(number: int, radix: int, count: int) -> list[int]:
    values = []
    for _ in range(count):
        number, value = divmod(number, radix)
        values.append(value)
    return values[::-1]
