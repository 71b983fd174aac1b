"""The parts of SQL that are understood: classes of sqlglot's tree, by name.

By name and one by one, so that a new version of the parser adds nothing by itself. Left out on purpose:
functions that sqlglot does not know (`Anonymous`: `pg_read_file`, `load_extension`), those that reach
outside (`ReadCSV`, `ReadParquet`), `Command` (what the parser gave up on), `Copy`, `Attach`, `Pragma`, `Set`,
`Execute`, `Use`, `Grant`, and definitions of functions and triggers (`UserDefinedFunction`, `Heredoc`).
"""

from typing import Final

_STATEMENTS = """
    Select Union Except Intersect Values Insert Update Delete Merge When Whens TruncateTable Create Drop Alter
    Transaction Commit Rollback
"""
_CLAUSES = """
    Into From Where Join Group Having Order Ordered Limit Offset Fetch Distinct With CTE Subquery Table
    TableAlias Alias Aliases Lateral Returning OnConflict Lock Qualify Window WindowSpec Filter Tuple Schema
    Rollup Cube GroupingSets WithinGroup Unnest
"""
_DEFINITIONS = """
    ColumnDef ColumnConstraint PrimaryKeyColumnConstraint NotNullColumnConstraint DefaultColumnConstraint
    UniqueColumnConstraint CheckColumnConstraint Reference ForeignKey PrimaryKey IndexParameters DataType
    DataTypeParam Constraint AutoIncrementColumnConstraint GeneratedAsIdentityColumnConstraint AlterColumn
    RenameColumn AlterRename AddConstraint
"""
_EXPRESSIONS = """
    Column Identifier Star Literal Boolean Null Paren Var Interval Cast TryCast Dot Placeholder Parameter
    And Or Not Xor EQ NEQ GT GTE LT LTE Is In Between Like ILike RegexpLike RegexpILike SimilarTo Exists Any
    All Add Sub Mul Div IntDiv Mod Neg BitwiseAnd BitwiseOr BitwiseXor BitwiseNot DPipe Escape NullSafeEQ
    NullSafeNEQ Distance Case If Array Bracket Slice Collate AtTimeZone Extract JSONExtract JSONExtractScalar
    JSONPath JSONPathRoot JSONPathKey JSONPathSubscript
"""
_FUNCTIONS = """
    Count Sum Avg Min Max Stddev StddevPop StddevSamp Variance VariancePop Median ArrayAgg GroupConcat
    PercentileCont PercentileDisc Coalesce Nullif Greatest Least Abs Ceil Floor Round Sqrt Pow Exp Ln Log Sign
    Lower Upper Length Trim Substring Concat ConcatWs Replace Left Right StrPosition Split SplitPart Initcap
    Reverse Pad RowNumber Rank DenseRank Ntile Lag Lead FirstValue LastValue NthValue CurrentDate CurrentTime
    CurrentTimestamp DateTrunc TimestampTrunc DateAdd DateSub DateDiff Date Timestamp TimeToStr StrToTime
    StrToDate ToChar Year Month Day Hour Minute Second Week Quarter TsOrDsToDate TsOrDsAdd TsOrDsDiff
    CurrentUser JSONObject JSONBExtract JSONArrayAgg JSONObjectAgg JSONKeyValue
"""

UNDERSTOOD: Final = frozenset(f"{_STATEMENTS} {_CLAUSES} {_DEFINITIONS} {_EXPRESSIONS} {_FUNCTIONS}".split())
"""A tree with any other class in it is not understood."""
