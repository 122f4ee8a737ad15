# SPDX-License-Identifier: MIT
"""The mutations of one C file: libclang says what a token is, the text says where.

A mutation changes some bytes of one line or expression of a function's body. What a preprocessor macro wrote
is never changed, nor what only talks: logs, error messages, assert().
"""

import hashlib
import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass

from clang.cindex import CursorKind, Index, TokenKind, TranslationUnit, TypeKind

KINDS = ["comparison", "constant", "condition", "logic", "call", "variable", "sync", "release", "plus-one", "error"]
COMPARISONS = {"<": ["<="], "<=": ["<"], ">": [">="], ">=": [">"], "==": ["!=", ">="], "!=": ["=="]}
LOGIC = {"&&": "||", "||": "&&"}
TALK = re.compile(r"error_(set|prefix|message|restore)\w*|log_\w+|assert\w*|perror|text_plural|\w*_(refuse|say|warn)(_\w+)?")
SYNC = re.compile(r"(fsync|fdatasync|msync|syncfs|sync_file_range)")
RELEASE = re.compile(r"(f?close|free|munmap|(\w+_)?(free|release|close|closedir|put|unlock|destroy|finalize|cleanup)|PQ(clear|finish|freemem)|disconnect)")
ALLOCATION = re.compile(r"(m|c|re)alloc|array_(new|grow)|aligned_alloc|huge_memory_new")
NO_EFFECT = {"pthread_mutex_destroy"}  # glibc's does nothing to a mutex that is free
INTEGERS = {TypeKind.INT, TypeKind.UINT, TypeKind.LONG, TypeKind.ULONG, TypeKind.LONGLONG, TypeKind.ULONGLONG,
            TypeKind.SHORT, TypeKind.USHORT, TypeKind.UCHAR, TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.ENUM}
LOOPS = {CursorKind.WHILE_STMT, CursorKind.FOR_STMT, CursorKind.DO_STMT}


@dataclass
class Mutation:
    file: str
    function: str
    kind: str
    line: int
    before: str  # the text from the first changed line to the last, without white space around it
    after: str
    span: tuple  # (first byte, one behind the last, new bytes)
    nth: int = 1  # among those that read the same in this function

    @property
    def name(self):
        """The same for the same text, wherever the line is now."""
        text = "\0".join([self.file, self.function, self.before, self.after, str(self.nth)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def apply(self, source):
        first, end, new = self.span
        return source[:first] + new + source[end:]


class Source:
    """One parsed file. `arguments` are the compiler's."""

    def __init__(self, name, path, arguments):
        self.name = name
        self.bytes = path.read_bytes()
        options = TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD
        self.unit = Index.create().parse(str(path), args=arguments, options=options)
        self.errors = [str(one) for one in self.unit.diagnostics if one.severity >= 3]
        # Tokens of comments are no code. A token: (first byte, one behind the last, text).
        self.tokens = [(one.extent.start.offset, one.extent.end.offset, one.spelling)
                       for one in self.unit.get_tokens(extent=self.unit.cursor.extent) if one.kind != TokenKind.COMMENT]
        self.starts = [first for first, _, _ in self.tokens]
        self.macros = [(one.extent.start.offset, one.extent.end.offset) for one in self.unit.cursor.get_children()
                       if one.kind == CursorKind.MACRO_INSTANTIATION and self.is_here(one)]

    def is_here(self, cursor):
        return cursor.location.file is not None and cursor.location.file.name == self.unit.spelling

    def text(self, first, end):
        return self.bytes[first:end].decode()

    def token_at(self, offset):
        """The first token that does not begin before `offset`; an empty one behind the file's last."""
        at = bisect_left(self.starts, offset)
        return self.tokens[at] if at < len(self.tokens) else (len(self.bytes), len(self.bytes), "")

    def is_ours(self, first, end):
        """No end lies in what a macro wrote."""
        return not any(low < end and first < high and not (first <= low and high <= end) for low, high in self.macros)

    def line_range(self, first, end):
        """The bytes of the lines on which [first, end) lies."""
        stop = self.bytes.find(b"\n", end)
        return self.bytes.rfind(b"\n", 0, first) + 1, len(self.bytes) if stop < 0 else stop

    def mutation(self, function, kind, first, end, new):
        low, high = self.line_range(first, end)
        before = self.text(low, high)
        after = self.text(low, first) + new + self.text(end, high)
        line = self.bytes.count(b"\n", 0, first) + 1
        squeeze = lambda text: re.sub(r"\s+", " ", text).strip()
        return Mutation(self.name, function, kind, line, squeeze(before), squeeze(after), (first, end, new.encode()))

    def mutations(self):
        """All of them, each once."""
        found, same = {}, Counter()
        for cursor in self.unit.cursor.get_children():
            if cursor.kind == CursorKind.FUNCTION_DECL and cursor.is_definition() and self.is_here(cursor):
                for one in Function(self, cursor).mutations():
                    if one.before != one.after and found.setdefault((one.span, one.kind), one) is one:
                        same[one.name] += 1
                        one.nth = same[one.name]
        return list(found.values())


class Function:
    def __init__(self, source, cursor):
        self.source = source
        self.cursor = cursor
        self.found = []
        self.allocates = ""  # the allocation whose arguments these are: what asks for more changes nothing
        self.scopes = [[]]  # of blocks that are open: (name, type) of their variables so far

    def mutations(self):
        for child in self.cursor.get_children():
            if child.kind == CursorKind.PARM_DECL:
                self.declare(child)
            elif child.kind == CursorKind.COMPOUND_STMT:
                self.walk(child, self.cursor)
        return self.found

    def add(self, kind, first, end, new):
        if self.source.is_ours(first, end):
            self.found.append(self.source.mutation(self.cursor.spelling, kind, first, end, new))

    def declare(self, cursor):
        if cursor.spelling:
            self.scopes[-1].append((cursor.spelling, cursor.type.get_canonical().spelling))

    def walk(self, cursor, parent):
        """`cursor` and what is below it; what only talks is passed by."""
        if is_talk(cursor) or only_decides_talk(cursor):
            return
        opens = cursor.kind == CursorKind.COMPOUND_STMT or cursor.kind in LOOPS
        if opens:
            self.scopes.append([])
        visit = VISITORS.get(cursor.kind)
        if visit:
            visit(self, cursor, parent)
        was, self.allocates = self.allocates, cursor.spelling if is_allocation(cursor) else self.allocates
        for child in cursor.get_children():
            self.walk(child, cursor)
        self.allocates = was
        if cursor.kind in (CursorKind.VAR_DECL, CursorKind.PARM_DECL):
            self.declare(cursor)
        if opens:
            self.scopes.pop()

    # ---- one kind of cursor each --------------------------------------------------------------

    def visit_binary(self, cursor, parent):
        left, right = list(cursor.get_children())
        first, end, operator = self.source.token_at(left.extent.end.offset)
        if end > right.extent.start.offset:
            return  # a macro wrote it
        integers = left.type.get_canonical().kind in INTEGERS
        for new in COMPARISONS.get(operator, []):
            if new != ">=" or integers:
                self.add("comparison", first, end, new)
        if operator in LOGIC:
            self.add("logic", first, end, LOGIC[operator])
        if operator in "+-" and self.source.text(right.extent.start.offset, right.extent.end.offset) == "1":
            self.add("plus-one", left.extent.end.offset, right.extent.end.offset, "")

    def visit_integer(self, cursor, parent):
        first, end, text = self.source.token_at(cursor.extent.start.offset)
        if parent.kind == CursorKind.VAR_DECL and parent.type.kind == TypeKind.CONSTANTARRAY:
            return  # the length of a local array
        digits = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", text)
        if digits and (first, end) == (cursor.extent.start.offset, cursor.extent.end.offset):
            value = int(digits[1], 8 if re.fullmatch("0[0-7]+", digits[1]) else 0)
            for new in (value + 1, value - 1) if value else (1,):
                if not self.allocates or new < value and (self.allocates, new) != ("array_new", 0):  # which gives one for none
                    self.add("constant", first, end, f"{new}{digits[2]}")

    def visit_floating(self, cursor, parent):
        first, end, text = self.source.token_at(cursor.extent.start.offset)
        if (first, end) == (cursor.extent.start.offset, cursor.extent.end.offset):
            self.add("constant", first, end, f"({text} + 1)")

    def visit_if(self, cursor, parent):
        first, end = self.parenthesized(cursor.extent.start.offset)
        text = self.source.text(first, end)
        for new in (f"!({text})", f"(({text}), 1)", f"(({text}), 0)"):
            self.add("condition", first, end, new)

    def visit_while(self, cursor, parent):
        first, end = self.parenthesized(cursor.extent.start.offset)
        self.add("condition", first, end, f"(({self.source.text(first, end)}), 0)")

    def parenthesized(self, offset):
        """The bytes between the first ( behind `offset` and its )."""
        at, depth, first = bisect_left(self.source.starts, offset) + 1, 1, None
        first = self.source.tokens[at][1]
        while depth:
            at += 1
            depth += {"(": 1, ")": -1}.get(self.source.tokens[at][2], 0)
        return first, self.source.tokens[at][0]

    def visit_call(self, cursor, parent):
        first, end = cursor.extent.start.offset, cursor.extent.end.offset
        if TALK.fullmatch(self.source.token_at(first)[2]):
            return  # assert() is a macro
        if SYNC.fullmatch(cursor.spelling):
            self.add("sync", first, end, "0")
        elif is_statement(cursor, parent) and cursor.spelling not in NO_EFFECT:
            kind = "release" if RELEASE.fullmatch(cursor.spelling) else "call"
            self.add(kind, first, end, "")

    def visit_reference(self, cursor, parent):
        first, end, text = self.source.token_at(cursor.extent.start.offset)
        used = cursor.referenced
        if text != cursor.spelling or not used or used.kind not in (CursorKind.VAR_DECL, CursorKind.PARM_DECL):
            return
        type_of = {name: kind for scope in self.scopes for name, kind in scope}
        for name, kind in type_of.items():
            if name != text and kind == type_of.get(text):
                self.add("variable", first, end, name)

    def visit_member(self, cursor, parent):
        used = cursor.referenced
        first, end, text = self.source.tokens[bisect_left(self.source.starts, cursor.extent.end.offset) - 1]
        if not used or text != used.spelling:
            return
        for sibling in used.semantic_parent.type.get_fields():
            if sibling.spelling != text and sibling.type.get_canonical() == used.type.get_canonical():
                self.add("variable", first, end, sibling.spelling)

    def visit_return(self, cursor, parent):
        value = next(cursor.get_children(), None)
        if value and self.cursor.result_type.spelling == "enum error":
            self.add("error", value.extent.start.offset, value.extent.end.offset, "OK")


VISITORS = {
    CursorKind.BINARY_OPERATOR: Function.visit_binary,
    CursorKind.INTEGER_LITERAL: Function.visit_integer,
    CursorKind.FLOATING_LITERAL: Function.visit_floating,
    CursorKind.IF_STMT: Function.visit_if,
    CursorKind.WHILE_STMT: Function.visit_while,
    CursorKind.CALL_EXPR: Function.visit_call,
    CursorKind.DECL_REF_EXPR: Function.visit_reference,
    CursorKind.MEMBER_REF_EXPR: Function.visit_member,
    CursorKind.RETURN_STMT: Function.visit_return,
}


def is_talk(cursor):
    if cursor.kind != CursorKind.CALL_EXPR:
        return False
    first = next(cursor.get_arguments(), None)
    return bool(TALK.fullmatch(cursor.spelling)) or (first is not None and first.spelling == "stderr")


def is_allocation(cursor):
    return cursor.kind == CursorKind.CALL_EXPR and bool(ALLOCATION.fullmatch(cursor.spelling))


def is_only_talk(cursor):
    """A statement that changes nothing but what people read."""
    if cursor.kind == CursorKind.COMPOUND_STMT:
        return all(map(is_only_talk, cursor.get_children()))
    return is_talk(cursor)


def only_decides_talk(cursor):
    """An if that says something or not, and whose condition does nothing itself."""
    if cursor.kind != CursorKind.IF_STMT:
        return False
    condition, *branches = cursor.get_children()
    calls = any(one.kind == CursorKind.CALL_EXPR for one in condition.walk_preorder())
    return not calls and all(map(is_only_talk, branches))


def is_statement(cursor, parent):
    """A call whose value nobody wants."""
    if parent.kind == CursorKind.COMPOUND_STMT or parent.kind == CursorKind.CSTYLE_CAST_EXPR:
        return parent.kind == CursorKind.COMPOUND_STMT or parent.type.kind == TypeKind.VOID
    if parent.kind == CursorKind.IF_STMT or parent.kind in LOOPS:
        return cursor != next(parent.get_children()) and cursor.type.kind == TypeKind.VOID
    return False
